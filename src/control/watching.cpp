#include "control/watching.h"

namespace firebreak::control {
namespace {

// As a shell counts a process that a signal ended.
constexpr int kSignalCode = 128;

}  // namespace

net::Task<void> Watching::watch_process(LivePtr vm, std::shared_ptr<machine::Machine> machine) {
  while (!co_await machine->wait_exit(Deadline::in(std::chrono::hours(24)))) {
  }
  auto turn = co_await vm->turn.lock(Deadline::in(std::chrono::hours(24)));
  // Suspended, terminated or resumed meanwhile: then the end was ours.
  if (!turn || vm->machine() != machine) co_return;
  co_await needs_.ending.end(vm, why_ended(*machine), false);
}

net::Task<void> Watching::watch_application(LivePtr vm, std::shared_ptr<machine::Machine> machine) {
  const Deadline deadline = Deadline::in(std::chrono::hours(24 * 365));
  auto output = co_await machine->agent().exec_output("app", vm->app.offset,
                                                      Deadline::in(std::chrono::seconds(30)));
  if (!output) co_return;
  const Passage passage{vm->record().tenant, vm->record().id, Origin::log};
  const auto out = needs_.outlet.open(passage);
  const auto err = needs_.outlet.open(passage);
  for (;;) {
    auto frame = co_await (*output)->next(deadline);
    if (!frame || !*frame) co_return;  // suspended or ended
    if ((*frame)->type != wire::FrameType::exit) {
      vm->app.offset = (*output)->offset();
      std::string& bytes = (*frame)->payload;
      if ((*frame)->type == wire::FrameType::out) bytes = out->pass(std::move(bytes));
      if ((*frame)->type == wire::FrameType::err) bytes = err->pass(std::move(bytes));
      (void)needs_.app_log.append(vm->record().id, (*frame)->type, bytes);
      continue;
    }
    vm->app.ended = true;
    vm->app.changed.notify();
    auto exit = machine::parse_exit((*frame)->payload);
    int code = exit && exit->exit_code ? *exit->exit_code : 1;
    if (exit && exit->signal) code = kSignalCode + *exit->signal;
    auto turn = co_await vm->turn.lock(Deadline::in(std::chrono::hours(24)));
    if (!turn || vm->machine() != machine || !core::app_is_pid1(vm->version())) co_return;
    co_await needs_.ending.end(vm, "Container Stopped with Exit Code: " + std::to_string(code),
                               false);
    co_return;
  }
}

void Watching::watch(LivePtr vm) {
  const std::string id = vm->record().id.str();
  tasks_.spawn("watch_process", watch_process(vm, vm->machine()), id);
  if (core::has_application(vm->version()))
    tasks_.spawn("watch_application", watch_application(vm, vm->machine()), id);
}

}  // namespace firebreak::control
