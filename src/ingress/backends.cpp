#include "ingress/backends.h"

#include <algorithm>

namespace firebreak::ingress {
namespace {

constexpr std::chrono::seconds kKeepIdle{60};

}  // namespace

// After a suspend the machine is another one; connections into the one before are dead. They keep
// their channel alive, so a new channel cannot have its address.
void Backend::meet(const session::Guest& guest) {
  const session::MachineMark machine = session::machine_of(guest);
  if (machine_ == machine) return;
  idle_.clear();
  for (auto& [port, connection] : std::exchange(http2_, {})) connection->close();
  machine_ = machine;
}

Taken::Taken(std::shared_ptr<Backend> backend, net::Semaphore::Guard place,
             session::MachineMark machine, std::uint16_t port)
    : backend_(std::move(backend)), place_(std::move(place)), machine_(machine), port_(port) {
  ++backend_->in_use_;
}

Taken::~Taken() {
  if (backend_) backend_->keep(*this);
}

net::Task<Result<Taken>> Backend::take(const session::Guest& guest, std::uint16_t port, bool fresh,
                                       Deadline deadline) {
  FB_CO_TRY_ASSIGN(net::Semaphore::Guard place, co_await places_.lock(deadline));
  meet(guest);
  Taken taken(shared_from_this(), std::move(place), session::machine_of(guest), port);
  // The one used last is the least likely to be closed.
  for (auto at = idle_.end(); !fresh && at != idle_.begin();) {
    --at;
    if (at->port != port) continue;
    auto connection = std::move(at->connection);
    at = idle_.erase(at);
    if (!connection->reusable()) continue;
    taken.connection_ = std::move(connection);
    taken.reused_ = true;
    co_return taken;
  }
  if (in_use_ + idle_.size() > kMaxConnections && !idle_.empty()) idle_.pop_front();
  taken.connection_ = net::Http1Upstream::over(session::speak_kept(guest, port));
  co_return taken;
}

void Backend::keep(Taken& taken) {
  --in_use_;
  if (machine_ != taken.machine_ || !taken.connection_ || !taken.connection_->reusable()) return;
  idle_.push_back({taken.port_, std::move(taken.connection_), Deadline::Clock::now()});
  if (idle_.size() > kMaxIdle) idle_.pop_front();
}

net::Task<Result<std::shared_ptr<net::Http2Upstream>>> Backend::http2(const session::Guest& guest,
                                                                      std::uint16_t port,
                                                                      Deadline deadline) {
  FB_CO_TRY_ASSIGN(const net::Mutex::Guard guard, co_await connecting_.lock(deadline));
  meet(guest);
  auto at = http2_.find(port);
  if (at != http2_.end() && at->second->usable()) co_return at->second;
  if (at == http2_.end() && http2_.size() >= kMaxHttp2)
    co_return fail(Code::exhausted, "too many ports speak HTTP/2 at once");
  FB_CO_TRY_ASSIGN(auto stream, co_await session::connect_kept(guest, port, deadline));
  auto connection =
      net::Http2Upstream::over(co_await net::asio::this_coro::executor, std::move(stream));
  http2_[port] = connection;
  co_return connection;
}

bool Backend::sweep(Deadline::Clock::time_point before) {
  std::erase_if(idle_, [before](const Idle& idle) {
    return idle.since < before || !idle.connection->reusable();
  });
  for (auto at = http2_.begin(); at != http2_.end();) {
    if (at->second->open_exchanges() > 0) {
      ++at;
      continue;
    }
    at->second->close();
    at = http2_.erase(at);
  }
  return idle_.empty() && http2_.empty() && in_use_ == 0 && requests == 0;
}

std::shared_ptr<Backend> Backends::of(const core::MicrovmId& microvm) {
  std::shared_ptr<Backend>& backend = all_[microvm];
  if (!backend) backend = std::make_shared<Backend>(executor_);
  return backend;
}

void Backends::sweep() {
  const auto before = Deadline::Clock::now() - kKeepIdle;
  std::erase_if(all_, [before](const auto& entry) { return entry.second->sweep(before); });
}

}  // namespace firebreak::ingress
