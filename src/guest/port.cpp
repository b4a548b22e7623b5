#include "guest/port.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>

#include "guest/log.h"

namespace firebreak::guest {
namespace {
constexpr std::size_t kReadSize = 64 * 1024UL;
constexpr int kReadsPerTurn = 64;
constexpr std::size_t kRefillBelow = 32 * 1024UL;
constexpr std::chrono::milliseconds kRecheck{50};
}  // namespace

Port::Port(Reactor& reactor, UniqueFd fd, Kind kind, Service& service,
           std::function<void()> on_gone)
    : reactor_(reactor),
      fd_(std::move(fd)),
      kind_(kind),
      service_(service),
      on_gone_(std::move(on_gone)),
      in_(kReadSize) {}

Port::~Port() {
  if (fd_) reactor_.unwatch(fd_.get(), *this);
}

// Edge-triggered: an absent host is a permanent EPOLLHUP, which would spin a level-triggered loop,
// while the driver wakes its waiters on every change (data, room, host open or close).
Result<> Port::start() {
  return reactor_.watch(fd_.get(), EPOLLIN | EPOLLOUT | EPOLLET, *this);
}

void Port::on_events(std::uint32_t events) {
  bool received = false;
  if ((events & EPOLLIN) != 0) received = read_some();
  if (kind_ != Kind::virtio || (events & EPOLLHUP) == 0) return;
  if (!received) return host_absent();
  // The first bytes of a new host may arrive before the news that it is there: what it was just
  // answered must not be dropped.
  reactor_.cancel(recheck_);
  recheck_ = reactor_.after(kRecheck, [this] {
    pollfd state{fd_.get(), 0, 0};
    if (::poll(&state, 1, 0) == 1 && (state.revents & POLLHUP) != 0) host_absent();
  });
}

bool Port::read_some() {
  bool received = false;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t n = ::read(fd_.get(), in_.data(), in_.size());
    if (n > 0) {
      received = true;
      decoder_.feed(std::span(in_.data(), static_cast<std::size_t>(n)), *this);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (kind_ == Kind::socket && (n == 0 || errno != EAGAIN)) {
      host_absent();
      on_gone_();
    }
    return received;
  }
  // The other descriptors of the loop get their turn; no new edge would announce what is left here.
  reactor_.defer([this] { read_some(); });
  return received;
}

void Port::host_absent() {
  connection_.reset();
  out_.clear();
  out_at_ = 0;
}

void Port::on_sync(const wire::Sync& sync) {
  host_absent();
  const wire::Sync answer{std::min(sync.version, kProtocolVersion), sync.nonce};
  encoder_.sync(answer, out_);
  connection_ = std::make_unique<Connection>(service_);
}

void Port::on_data(std::string_view bytes) {
  if (!connection_) return;
  if (auto done = connection_->receive(bytes); !done) {
    log("dropping a connection: " + done.error().text());
    refill();
    connection_.reset();
  }
}

bool Port::refill() {
  raw_.clear();
  if (!connection_ || !connection_->take_output(raw_, kReadSize)) return false;
  encoder_.data(raw_, out_);
  return true;
}

void Port::flush() {
  for (;;) {
    if (out_.size() - out_at_ < kRefillBelow) {
      out_.erase(0, out_at_);
      out_at_ = 0;
      refill();
    }
    if (out_at_ == out_.size()) return;
    const ssize_t n = ::write(fd_.get(), out_.data() + out_at_, out_.size() - out_at_);
    if (n < 0) {
      if (errno == EINTR) continue;
      // Anything but "no room" means nobody is there to read it; the next sync starts afresh.
      if (errno != EAGAIN) host_absent();
      return;
    }
    out_at_ += static_cast<std::size_t>(n);
  }
}

}  // namespace firebreak::guest
