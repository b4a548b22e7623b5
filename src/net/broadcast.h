// "Something changed": any number of tasks of one executor wait, one call wakes them all. Wait in a
// loop over the real condition.
#pragma once

#include <list>

#include "net/task.h"

namespace firebreak::net {

class Broadcast {
 public:
  explicit Broadcast(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  // false: the deadline passed first.
  Task<bool> wait(Deadline deadline) {
    auto at = waiters_.emplace(waiters_.end(), executor_);
    const bool woken = co_await at->wait(deadline);
    waiters_.erase(at);
    co_return woken;
  }
  void notify() {
    for (Event& waiter : waiters_) waiter.notify();
  }

 private:
  asio::any_io_executor executor_;
  std::list<Event> waiters_;
};

}  // namespace firebreak::net
