#include "net/task_group.h"

#include <exception>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>

namespace firebreak::net {

void TaskGroup::spawn(std::string name, Task<void> task, std::string context) {
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

void TaskGroup::cancel() {
  const auto state = state_;
  if (std::exchange(state->closed, true)) return;
  for (asio::cancellation_signal& signal : state->signals)
    signal.emit(asio::cancellation_type::terminal);
  // Asio posts a pointer into the signal, and does not mind whether the task ends before that is
  // delivered: so signals stay from here on, and the state until what is posted has run.
  asio::post(executor_, [state] {});
}

Task<bool> TaskGroup::wait(std::shared_ptr<State> state, Deadline deadline) {
  while (state->running > 0 && !deadline.passed()) (void)co_await state->ended.wait(deadline);
  co_return state->running == 0;
}

}  // namespace firebreak::net
