// Background tasks of one owner: closing the group cancels them all and waits until they have
// ended. Owned by the object whose tasks they are; one executor.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>

#include "net/task.h"

namespace firebreak::net {

class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor)
      : executor_(std::move(executor)), state_(std::make_shared<State>(executor_)) {}
  ~TaskGroup() { cancel(); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // After close() a task is dropped unstarted. What it throws (it was cancelled, or has a bug) ends
  // it alone.
  void spawn(Task<void> task) {
    if (state_->closed) return;
    auto at = state_->signals.emplace(state_->signals.end());
    ++state_->running;
    asio::co_spawn(
        executor_, std::move(task),
        asio::bind_cancellation_slot(at->slot(), [state = state_, at](const std::exception_ptr&) {
          if (!state->closed) state->signals.erase(at);
          if (--state->running == 0) state->ended.notify();
        }));
  }

  std::size_t size() const { return state_->running; }

  // Their waits end with an exception, in the next turn of the loop. Nothing new starts.
  void cancel() {
    const auto state = state_;
    if (std::exchange(state->closed, true)) return;
    for (asio::cancellation_signal& signal : state->signals)
      signal.emit(asio::cancellation_type::terminal);
    // Asio posts a pointer into the signal, and does not mind whether the task ends before that is
    // delivered: so signals stay from here on, and the state until what is posted has run.
    asio::post(executor_, [state] {});
  }

  // false: some still run when the deadline has passed.
  Task<bool> close(Deadline deadline) {
    const auto state = state_;
    cancel();
    while (state->running > 0 && !deadline.passed()) (void)co_await state->ended.wait(deadline);
    co_return state->running == 0;
  }

 private:
  struct State {
    explicit State(const asio::any_io_executor& executor) : ended(executor) {}
    std::list<asio::cancellation_signal> signals;
    std::size_t running = 0;
    Event ended;
    bool closed = false;
  };

  asio::any_io_executor executor_;
  std::shared_ptr<State> state_;
};

}  // namespace firebreak::net
