#include "guest/reactor.h"

#include <algorithm>
#include <cerrno>

#include <sys/eventfd.h>

namespace firebreak::guest {

class Reactor::Wakeup final : public Watcher {
 public:
  explicit Wakeup(Reactor& reactor)
      : reactor_(reactor), fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
  }
  void on_events(std::uint32_t) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
    reactor_.run_posted();
  }

 private:
  Reactor& reactor_;
  UniqueFd fd_;
};

Reactor::Reactor()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wakeup_(std::make_unique<Wakeup>(*this)) {}

Reactor::~Reactor() = default;

Result<std::unique_ptr<Reactor>> Reactor::create() {
  std::unique_ptr<Reactor> reactor(new Reactor());
  if (!reactor->epoll_ || reactor->wakeup_->fd() < 0) return fail_errno("epoll");
  FB_TRY(reactor->watch(reactor->wakeup_->fd(), EPOLLIN, *reactor->wakeup_));
  return reactor;
}

Result<> Reactor::watch(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno != EEXIST || ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)
    return fail_errno("epoll_ctl");
  return {};
}

void Reactor::unwatch(int fd, Watcher& watcher) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  forget(watcher);
}

void Reactor::close(UniqueFd& fd, Watcher& watcher) {
  if (!fd) return;
  unwatch(fd.get(), watcher);
  fd.reset();
}

// Events of the batch at hand may still name a watcher that is going away.
void Reactor::forget(const Watcher& watcher) {
  for (int i = 0; i < batch_size_; ++i) {
    if (batch_[static_cast<std::size_t>(i)].data.ptr == &watcher)
      batch_[static_cast<std::size_t>(i)].data.ptr = nullptr;
  }
}

Reactor::TimerId Reactor::after(std::chrono::nanoseconds delay, std::function<void()> what) {
  const TimerId id{Clock::now() + delay, ++serial_};
  timers_.emplace(id, std::move(what));
  return id;
}

void Reactor::cancel(TimerId& id) {
  if (id) timers_.erase(id);
  id = {};
}

void Reactor::post(std::function<void()> what) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(what));
  }
  if (first) wakeup_->ring();
}

void Reactor::run_posted() {
  std::vector<std::function<void()>> batch;
  {
    const std::scoped_lock lock(mutex_);
    batch.swap(posted_);
  }
  for (auto& what : batch) what();
}

void Reactor::run_deferred() {
  std::vector<std::function<void()>> batch;
  batch.swap(deferred_);
  for (auto& what : batch) what();
}

int Reactor::wait_ms() const {
  if (!deferred_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.at - Clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000));
}

void Reactor::run_timers() {
  if (timers_.empty()) return;
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.at <= now) {
    auto node = timers_.extract(timers_.begin());
    node.mapped()();
  }
}

void Reactor::run() {
  while (running_) {
    const int n = ::epoll_wait(epoll_.get(), batch_.data(), kBatch, wait_ms());
    batch_size_ = std::max(n, 0);
    for (int i = 0; i < batch_size_; ++i) {
      const epoll_event event = batch_[static_cast<std::size_t>(i)];
      if (event.data.ptr != nullptr) static_cast<Watcher*>(event.data.ptr)->on_events(event.events);
    }
    batch_size_ = 0;
    run_timers();
    run_deferred();
    if (batch_end_) batch_end_();
  }
}

}  // namespace firebreak::guest
