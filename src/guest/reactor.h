// An epoll loop with timers and posts from other threads. One per agent thread (ctl, data);
// everything but post() is called on the loop's own thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/epoll.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;
  virtual void on_events(std::uint32_t events) = 0;
};

class Reactor {
 public:
  using Clock = std::chrono::steady_clock;
  struct TimerId {
    Clock::time_point at;
    std::uint64_t serial = 0;
    friend auto operator<=>(const TimerId&, const TimerId&) = default;
    explicit operator bool() const { return serial != 0; }
  };

  static Result<std::unique_ptr<Reactor>> create();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  Result<> watch(int fd, std::uint32_t events, Watcher& watcher);
  void unwatch(int fd, Watcher& watcher);
  // Ends the watch, then closes. Closing alone would not do: a child that has just been released by
  // its exec may hold a duplicate for a moment.
  void close(UniqueFd& fd, Watcher& watcher);

  TimerId after(std::chrono::nanoseconds delay, std::function<void()> what);
  void cancel(TimerId& id);

  // Runs on the loop, soon. Any thread.
  void post(std::function<void()> what);
  // Runs on this loop after the events at hand, before it waits again.
  void defer(std::function<void()> what) { deferred_.push_back(std::move(what)); }
  // Called after every batch of events: where output that piled up is sent.
  void on_batch_end(std::function<void()> hook) { batch_end_ = std::move(hook); }

  void run();
  void stop() { running_ = false; }

 private:
  class Wakeup;
  Reactor();

  void forget(const Watcher& watcher);
  int wait_ms() const;
  void run_timers();
  void run_posted();
  void run_deferred();

  static constexpr int kBatch = 32;

  UniqueFd epoll_;
  std::unique_ptr<Wakeup> wakeup_;
  std::array<epoll_event, kBatch> batch_{};
  int batch_size_ = 0;
  bool running_ = true;
  std::uint64_t serial_ = 0;
  std::map<TimerId, std::function<void()>> timers_;
  std::vector<std::function<void()>> deferred_;
  std::function<void()> batch_end_;

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace firebreak::guest
