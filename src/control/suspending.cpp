#include "control/suspending.h"

#include "control/metering.h"
#include "image/hook_caller.h"

namespace firebreak::control {
namespace {

using core::Hook;
using core::Intent;
using core::MicrovmState;

double ms_since(Deadline::Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Deadline::Clock::now() - began).count();
}

}  // namespace

std::string said(Outlet& outlet, const LiveMicrovm& vm, std::string reason) {
  return outlet.pass_whole({vm.tenant(), vm.id(), Origin::reason}, std::move(reason));
}

void observe(obs::Metrics& metrics, const machine::Phases& phases, std::string_view operation) {
  for (const machine::Phase& phase : phases) {
    metrics.observe_ms("firebreak_phase_seconds",
                       obs::label("operation", operation) + "," + obs::label("phase", phase.name),
                       static_cast<double>(phase.took.count()) / 1000);
  }
}

net::Task<void> Suspending::note_stored(LiveMicrovm& vm) {
  auto count = [engine = needs_.engines.get(vm.record().engine), id = vm.record().id.str()]() {
    return engine ? (*engine)->stored_bytes(id) : 0;
  };
  vm.used.stored_bytes = co_await net::run_blocking(needs_.pool, std::move(count));
}

net::Task<bool> Suspending::is_saved(const LiveMicrovm& vm) {
  auto look = [engine = needs_.engines.get(vm.record().engine), id = vm.record().id.str()]() {
    return engine && (*engine)->is_suspended(id);
  };
  co_return co_await net::run_blocking(needs_.pool, std::move(look));
}

net::Task<Result<>> Suspending::finish(LivePtr vm, Deadline deadline) {
  // What it used until now, before its counters are gone.
  (void)account(*vm, needs_.clock.now());
  auto saved = co_await vm->machine()->suspend(deadline);
  if (!saved) co_return saved;
  needs_.steps.reach("saved");
  co_await needs_.egress.dismiss(vm);
  observe(needs_.metrics, vm->machine()->phases(), "suspend");
  vm->forget_machine();
  co_await note_stored(*vm);
  vm->used.meter.total.snapshot_written_bytes += vm->used.stored_bytes;
  co_return co_await needs_.journal.commit(
      *vm, {.state = MicrovmState::suspended, .intent = Intent::none});
}

net::Task<Result<>> Suspending::suspend(LivePtr vm, std::string reason, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine, needs_.engines.get(vm->record().engine));
  FB_CO_TRY(machine::require(*engine, machine::Feature::suspend));
  if (vm->state() == MicrovmState::suspended) co_return Result<>();
  if (vm->state() != MicrovmState::running) {
    co_return fail(Code::conflict, Reason{"wrong_state"},
                   "the microVM is " + std::string(to_string(vm->state())),
                   Repair{"only a RUNNING one can be suspended"});
  }
  const auto began = Deadline::Clock::now();
  FB_CO_TRY(co_await needs_.journal.commit(
      *vm, {.state = MicrovmState::suspending, .intent = Intent::suspend, .reason = reason}));
  needs_.steps.reach("suspending");
  auto failure =
      co_await image::call_hook(vm->machine()->agent(), vm->version().hooks, Hook::suspend, {});
  if (failure) {
    const std::string why = said(needs_.outlet, *vm, failure->reason);
    co_await needs_.ending.end(vm, why, false);
    co_return fail(Code::guest, why);
  }
  needs_.steps.reach("suspend.hooked");
  auto done = co_await finish(vm, deadline);
  if (done) {
    needs_.metrics.observe_ms("firebreak_suspend_seconds", "", ms_since(began));
    co_return done;
  }
  // The machine thawed the guest when it could not save it.
  if (vm->machine() && !co_await vm->machine()->wait_exit(Deadline::in(std::chrono::seconds(0)))) {
    FB_CO_TRY(
        co_await needs_.journal.commit(*vm, {.state = MicrovmState::running,
                                             .intent = Intent::none,
                                             .reason = "Not suspended: " + done.error().message}));
  } else if (vm->machine()) {
    co_await needs_.ending.end(vm, why_ended(*vm->machine()), false);
  }
  co_return done;
}

net::Task<Result<>> Suspending::fork(LivePtr vm, std::vector<std::string> ids, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  if (vm->state() != MicrovmState::running) {
    co_return fail(Code::conflict, Reason{"wrong_state"},
                   "the microVM is " + std::string(to_string(vm->state())),
                   Repair{"only a RUNNING one can be forked"});
  }
  FB_CO_TRY(co_await needs_.journal.commit(*vm, {.intent = Intent::fork}));
  needs_.steps.reach("fork");
  auto forked = co_await vm->machine()->fork(ids, deadline);
  needs_.steps.reach("forked");
  FB_CO_TRY(co_await needs_.journal.commit(*vm, {.intent = Intent::none}));
  co_return forked;
}

}  // namespace firebreak::control
