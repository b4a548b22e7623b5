// Background tasks of one owner: closing the group cancels them all and waits until they have
// ended. The only way to start a task that nobody awaits. Owned by the object whose tasks they
// are; one executor.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/cancellation_signal.hpp>

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
  void spawn(std::string name, Task<void> task, std::string context = {});

  std::size_t size() const { return state_->running; }

  // Their waits end with an exception, in the next turn of the loop. Nothing new starts.
  void cancel();

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

  static Task<bool> wait(std::shared_ptr<State> state, Deadline deadline);

  asio::any_io_executor executor_;
  std::shared_ptr<State> state_;
};

}  // namespace firebreak::net
