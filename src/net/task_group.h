// Background tasks of one owner: closing the group cancels them all and waits until they have
// ended. The only way to start a task that nobody awaits. Owned by the object whose tasks they
// are; one executor.
#pragma once

#include <exception>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>

#include "net/task.h"
#include "obs/exceptions.h"

namespace firebreak::net {

class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor, obs::Exceptions exceptions = {})
      : executor_(std::move(executor)), state_(std::make_shared<State>(executor_, exceptions)) {}
  ~TaskGroup() { cancel(); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // After close() a task is dropped unstarted. What it throws ends it alone, and is reported under
  // its name (a fixed word) with the context (which microVM, which build).
  void spawn(std::string name, Task<void> task, std::string context = {}) {
    if (state_->closed) return;
    auto at = state_->signals.emplace(state_->signals.end());
    ++state_->running;
    auto ended = [state = state_, at, name = std::move(name),
                  context = std::move(context)](const std::exception_ptr& thrown) {
      if (thrown && !(state->closed && was_cancelled(thrown)))
        state->exceptions.report(name, context, thrown);
      if (!state->closed) state->signals.erase(at);
      if (--state->running == 0) state->ended.notify();
    };
    asio::co_spawn(executor_, std::move(task),
                   asio::bind_cancellation_slot(at->slot(), std::move(ended)));
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

  // Until all have ended by themselves; new ones may still start. false: the deadline passed.
  // close() and this have one caller at a time.
  Task<bool> wait(Deadline deadline) { return wait(state_, deadline); }

  // false: some still run when the deadline has passed.
  Task<bool> close(Deadline deadline) {
    cancel();
    return wait(state_, deadline);
  }

 private:
  struct State {
    State(const asio::any_io_executor& executor, obs::Exceptions sink)
        : exceptions(sink), ended(executor) {}
    obs::Exceptions exceptions;
    std::list<asio::cancellation_signal> signals;
    std::size_t running = 0;
    Event ended;
    bool closed = false;
  };

  static Task<bool> wait(std::shared_ptr<State> state, Deadline deadline) {
    while (state->running > 0 && !deadline.passed()) (void)co_await state->ended.wait(deadline);
    co_return state->running == 0;
  }

  asio::any_io_executor executor_;
  std::shared_ptr<State> state_;
};

}  // namespace firebreak::net
