#include "control/ending.h"

#include <algorithm>

#include "control/metering.h"
#include "control/version_config.h"
#include "image/hook_caller.h"
#include "image/signal_name.h"

namespace firebreak::control {
namespace {

using core::Hook;
using core::Intent;
using core::MicrovmState;

constexpr auto kEndDeadline = std::chrono::seconds(30);
constexpr auto kStopDeadline = std::chrono::seconds(10);
constexpr auto kMendDeadline = std::chrono::seconds(60);
constexpr core::Millis kRetryAfter{200};

}  // namespace

std::string why_ended(const machine::Machine& machine) {
  if (machine.killed_for_memory())
    return "Memory: the host ended the machine, which held more than its limit.";
  return "The machine's process ended unexpectedly.";
}

net::Task<Result<>> Ending::discard(const LiveMicrovm& vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, needs_.engines.get(vm.record().engine));
  co_return co_await engine->discard(vm.record().id.str(), deadline);
}

net::Task<Result<>> Ending::remove_machine(LivePtr vm) {
  co_await needs_.egress.dismiss(vm);
  Result<> removed;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Deadline deadline = Deadline::in(kEndDeadline);
    removed = vm->machine() ? co_await vm->machine()->terminate(deadline)
                            : co_await discard(*vm, deadline);
    if (removed) break;
    co_await needs_.pauses.pause(kRetryAfter);
  }
  co_return removed;
}

// Only where the image says how: the end of others is the end of their machine, at once.
net::Task<void> Ending::stop_application(LiveMicrovm& vm) {
  const auto config = config_of(vm.version());
  if (!config || config->stop_signal.empty()) co_return;
  const std::optional<int> signal = image::signal_number(config->stop_signal);
  const Deadline deadline = Deadline::in(kStopDeadline);
  if (!signal || !co_await vm.machine()->agent().signal_exec("app", *signal, deadline)) co_return;
  while (!vm.app.ended && !deadline.passed()) (void)co_await vm.app.changed.wait(deadline);
}

net::Task<void> Ending::end(LivePtr vm, std::string reason, bool call_hook) {
  if (vm->state() != MicrovmState::terminating) {
    // Not written: it is looked at again by the ticker, and after a restart.
    vm->must_end(reason);
    if (!co_await needs_.journal.commit(*vm, {.state = MicrovmState::terminating,
                                              .intent = Intent::terminate,
                                              .reason = reason,
                                              .clear_payload = true})) {
      co_return;
    }
  }
  vm->end_is_written();
  needs_.steps.reach("terminating");
  if (call_hook && vm->machine()) {
    vm->set_in_last_hook(true);
    (void)co_await image::call_hook(vm->machine()->agent(), vm->version().hooks, Hook::terminate,
                                    {});
    vm->set_in_last_hook(false);
    co_await stop_application(*vm);
  }
  (void)account(*vm, needs_.clock.now(), true);
  auto removed = co_await remove_machine(vm);
  needs_.steps.reach("removed");
  if (!removed) {
    needs_.log.error("cannot remove machine",
                     {{"id", vm->record().id.str()}, {"error", removed.error().text()}});
    needs_.journal.count_error(removed.error());
    co_return;  // stays TERMINATING: the ticker tries again
  }
  vm->forget_machine();
  if (co_await needs_.journal.commit(*vm,
                                     {.state = MicrovmState::terminated, .intent = Intent::none})) {
    needs_.live.remove(vm->record().id);
  }
}

net::Task<void> Ending::settle(LivePtr vm) {
  // What its machine is can be told by its engine only.
  if (!vm->is_unsettled() || !needs_.engines.get(vm->record().engine)) co_return;
  auto turn = co_await vm->turn.lock(Deadline::in(kEndDeadline));
  if (!turn) co_return;
  if (vm->unended()) co_return co_await end(vm, std::string(*vm->unended()), false);
  store::MicrovmChange change{.intent = Intent::none};
  // One that could not be saved was thawed; one that was has no machine any more.
  if (vm->state() == MicrovmState::suspending)
    change.state = vm->machine() ? MicrovmState::running : MicrovmState::suspended;
  (void)co_await needs_.journal.commit(*vm, std::move(change));
}

net::Task<Result<>> Ending::terminate(LivePtr vm, std::string reason, Deadline deadline) {
  FB_CO_TRY(needs_.engines.get(vm->record().engine));
  vm->ask_end();
  // A launch or resume that waits for a hook of a minute gives up at once.
  const bool starting =
      vm->state() == MicrovmState::pending || vm->record().intent == Intent::resume;
  if (starting && vm->machine()) vm->machine()->agent().close();
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  if (vm->state() == MicrovmState::terminated) co_return Result<>();
  const bool call_hook = vm->state() == MicrovmState::running;
  co_await end(vm, std::move(reason), call_hook);
  if (vm->state() != MicrovmState::terminated) {
    co_return fail(Code::unavailable, "the microVM could not be removed yet",
                   Repair{"it is tried again"});
  }
  co_return Result<>();
}

net::Task<bool> Ending::mend(LivePtr vm, net::asio::thread_pool& pool) {
  const Deadline deadline = Deadline::in(kMendDeadline);
  auto turn = co_await vm->turn.lock(deadline);
  if (!turn) co_return false;
  if (vm->state() == MicrovmState::suspended) {
    const auto engine = needs_.engines.get(vm->record().engine);
    if (!engine) co_return false;
    auto list = [engine = *engine]() { return engine->list(); };
    const auto found = co_await net::run_blocking(pool, list);
    if (!found) co_return false;
    const auto at = std::ranges::find(*found, vm->id().str(), &machine::FoundMachine::id);
    if (at == found->end() || !at->suspended) co_return false;
    // Attaching ends what runs beside a saved state.
    (void)co_await (*engine)->attach(vm->id().str(), deadline);
    co_return true;
  }
  if (vm->state() != MicrovmState::running) co_return true;
  const bool gone =
      !vm->machine() || co_await vm->machine()->wait_exit(Deadline::in(std::chrono::seconds(0)));
  if (gone) co_await end(vm, "The machine's process is gone.", false);
  co_return gone;
}

}  // namespace firebreak::control
