// "Something changed": any number of tasks of one executor wait, one call wakes them all. Wait in a
// loop over the real condition; if looking at it takes a wait of its own, take count() before and
// give it to wait(), which then misses nothing.
#pragma once

#include <cstdint>
#include <list>

#include "net/task.h"

namespace firebreak::net {

class Broadcast {
 public:
  explicit Broadcast(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  // How often it was notified.
  std::uint64_t count() const { return count_; }
  // false: the deadline passed first.
  Task<bool> wait(Deadline deadline) { return wait(deadline, count_); }
  // As above; returns at once if it was notified since `seen` was taken.
  Task<bool> wait(Deadline deadline, std::uint64_t seen);
  void notify() {
    ++count_;
    for (Event& waiter : waiters_) waiter.notify();
  }

 private:
  asio::any_io_executor executor_;
  std::list<Event> waiters_;
  std::uint64_t count_ = 0;
};

}  // namespace firebreak::net
