// Locks for coroutines of one executor: so many holders at a time, waiters served in the order they
// came. A guard may outlive the task that took it, not the semaphore.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "net/task.h"

namespace firebreak::net {

class Semaphore {
 public:
  class Guard {
   public:
    Guard() = default;
    explicit Guard(Semaphore* owner) : owner_(owner) {}
    Guard(Guard&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Guard& operator=(Guard&& other) noexcept {
      if (this != &other) {
        release();
        owner_ = std::exchange(other.owner_, nullptr);
      }
      return *this;
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { release(); }
    void release() {
      if (Semaphore* owner = std::exchange(owner_, nullptr)) owner->unlock();
    }

   private:
    Semaphore* owner_ = nullptr;
  };

  Semaphore(asio::any_io_executor executor, std::uint32_t permits)
      : executor_(std::move(executor)), free_(permits) {}

  // Nobody would have to wait.
  bool idle() const { return free_ > 0; }
  // Code::timeout when the deadline passes first.
  Task<Result<Guard>> lock(Deadline deadline);

 private:
  struct Waiter {
    explicit Waiter(const asio::any_io_executor& executor) : event(executor) {}
    Event event;
    bool granted = false;
  };

  void unlock() {
    for (Waiter& waiter : waiters_) {
      if (waiter.granted) continue;
      waiter.granted = true;  // the permit passes on without being free in between
      waiter.event.notify();
      return;
    }
    ++free_;
  }

  asio::any_io_executor executor_;
  std::list<Waiter> waiters_;
  std::uint32_t free_;
};

// One holder at a time.
class Mutex : public Semaphore {
 public:
  explicit Mutex(asio::any_io_executor executor) : Semaphore(std::move(executor), 1) {}
};

}  // namespace firebreak::net
