#include "control/starting.h"

#include "control/host_limits.h"
#include "control/metering.h"
#include "image/hook_caller.h"

namespace firebreak::control {
namespace {

using core::Hook;
using core::Intent;
using core::MicrovmState;

constexpr auto kStartDeadline = std::chrono::seconds(180);
constexpr auto kEndDeadline = std::chrono::seconds(30);
constexpr auto kRefreshDeadline = std::chrono::seconds(5);
constexpr core::Seconds kRefreshAgain{30};

std::chrono::microseconds since(Deadline::Clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Deadline::Clock::now() - began);
}

double ms_since(Deadline::Clock::time_point began) {
  return static_cast<double>(since(began).count()) / 1000;
}

}  // namespace

machine::Identity Starting::identity_of(LiveMicrovm& vm) const {
  machine::Identity identity =
      machine::fresh_identity(vm.record().id.str(), vm.record().generation + 1);
  identity.network = needs_.egress.has_network(vm);
  identity.metadata = needs_.roles.metadata(vm);
  return identity;
}

net::Task<Result<>> Starting::restore(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto slot, co_await slots_.lock(vm->record().tenant, deadline));
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, needs_.engines.get(vm->record().engine));
  FB_CO_TRY_ASSIGN(auto snapshot,
                   co_await needs_.catalogue.load(core::snapshot_of(vm->version()), deadline));
  const machine::LaunchSpec spec{.id = vm->record().id.str(),
                                 .limits = host_limits(vm->size()),
                                 .network = needs_.egress.has_network(*vm)};
  FB_CO_TRY_ASSIGN(auto restored, co_await engine->restore(snapshot, spec, deadline));
  vm->set_machine(std::move(restored));
  observe(needs_.metrics, vm->machine()->phases(), "restore");
  FB_CO_TRY(co_await needs_.egress.admit(vm, deadline));
  co_return co_await vm->machine()->wake(identity_of(*vm), deadline);
}

net::Task<Result<>> Starting::bring_up(LivePtr vm, std::shared_ptr<machine::Machine> parked) {
  const Deadline deadline = Deadline::in(kStartDeadline);
  if (parked) {
    vm->set_machine(std::move(parked));
    Result<> up = co_await needs_.egress.admit(vm, deadline);
    if (up) up = co_await vm->machine()->unpark(identity_of(*vm), deadline);
    if (up) {
      observe(needs_.metrics, vm->machine()->phases(), "unpark");
      needs_.metrics.add("firebreak_launches_total", obs::label("path", "parked"));
      co_return Result<>();
    }
    needs_.log.warn("parked clone failed",
                    {{"id", vm->record().id.str()}, {"error", up.error().text()}});
    (void)co_await vm->machine()->terminate(Deadline::in(kEndDeadline));
    vm->forget_machine();
  }
  needs_.metrics.add("firebreak_launches_total", obs::label("path", "restored"));
  co_return co_await restore(vm, deadline);
}

// The hook, then RUNNING: nobody is told before the application said yes.
net::Task<Result<>> Starting::say_running(LivePtr vm, Hook hook, std::string body) {
  needs_.steps.reach("hook");
  auto failure =
      co_await image::call_hook(vm->machine()->agent(), vm->version().hooks, hook, std::move(body));
  if (failure) co_return fail(Code::guest, said(needs_.outlet, *vm, failure->reason));
  needs_.steps.reach("hooked");
  if (vm->end_asked()) co_return fail(Code::conflict, "Terminated while starting.");
  const core::Time now = needs_.clock.now();
  vm->used.activity.saw_traffic(now);
  begin_running(*vm, now);
  // After a power cut PENDING, resuming and RUNNING are the same: gone. The engine sees to it that
  // no saved state is used twice.
  FB_CO_TRY(co_await needs_.journal.commit(*vm,
                                           {.state = MicrovmState::running,
                                            .intent = Intent::none,
                                            .reason = "",
                                            .generation = vm->record().generation + 1,
                                            .clear_payload = true},
                                           store::Durability::later));
  needs_.steps.reach("running");
  needs_.watching.watch(vm);
  co_return Result<>();
}

net::Task<void> Starting::launch(LivePtr vm, std::shared_ptr<machine::Machine> parked) {
  const Foreground foreground(needs_.foreground);
  const auto began = Deadline::Clock::now();
  auto turn = co_await vm->turn.lock(Deadline::in(kStartDeadline));
  if (!turn) co_return;
  needs_.steps.reach("launch");
  auto up = co_await bring_up(vm, std::move(parked));
  needs_.steps.reach("woken");
  if (up) {
    for (const image::LoadedBase& base : needs_.catalogue.loaded()) {
      if (base.snapshot == core::snapshot_of(vm->version()))
        vm->used.meter.total.snapshot_read_bytes += base.ram_bytes;
    }
    up = co_await say_running(vm, Hook::run,
                              core::run_hook_body(vm->record().id.str(), vm->record().payload));
  }
  if (!up) {
    needs_.journal.count_error(up.error());
    needs_.log.warn("launch failed", {{"id", vm->record().id.str()}, {"error", up.error().text()}});
    co_await needs_.ending.end(vm, up.error().message, false);
    co_return;
  }
  needs_.metrics.observe_ms("firebreak_launch_seconds", "", ms_since(began));
  co_await needs_.egress.leave_unused(vm);
}

net::Task<void> Starting::launch_fork(LivePtr vm) {
  const Foreground foreground(needs_.foreground);
  auto turn = co_await vm->turn.lock(Deadline::in(kStartDeadline));
  if (!turn) co_return;
  if (vm->state() != MicrovmState::pending) {
    // Ended before the fork was done: what it has written since belongs to nobody.
    (void)co_await needs_.ending.discard(*vm, Deadline::in(kEndDeadline));
    co_return;
  }
  co_await needs_.suspending.note_stored(*vm);
  auto up = co_await bring_back(vm, Deadline::in(kStartDeadline));
  if (!up) co_await needs_.ending.end(vm, up.error().message, false);
}

// From the saved state on disk to RUNNING, for a resume and for the child of a fork.
net::Task<Result<>> Starting::bring_back(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto slot, co_await slots_.lock(vm->record().tenant, deadline));
  // Giving up half-way would end it, so a caller who has waited long already gets all the time.
  deadline = Deadline::in(kStartDeadline);
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, needs_.engines.get(vm->record().engine));
  auto machine =
      co_await engine->resume(vm->record().id.str(), deadline, needs_.egress.has_network(*vm));
  slot.release();
  if (!machine) co_return std::unexpected(machine.error());
  vm->set_machine(*std::move(machine));
  observe(needs_.metrics, vm->machine()->phases(), "resume");
  needs_.steps.reach("resumed");
  FB_CO_TRY(vm->machine()->set_limits(host_limits(vm->size())));
  const auto admitting = Deadline::Clock::now();
  FB_CO_TRY(co_await needs_.egress.admit(vm, deadline));
  observe(needs_.metrics, {{"admit", since(admitting)}}, "resume");
  auto woken = co_await vm->machine()->wake(identity_of(*vm), deadline);
  if (!woken) co_return fail(woken.error(), "waking the microVM");
  observe(needs_.metrics, vm->machine()->phases(), "resume");
  vm->used.meter.total.snapshot_read_bytes += vm->used.stored_bytes;
  co_return co_await say_running(vm, Hook::resume, {});
}

net::Task<Result<>> Starting::resume(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  // Refused before anything is written when this server does not have its engine.
  FB_CO_TRY(needs_.engines.get(vm->record().engine));
  if (vm->state() == MicrovmState::running) co_return Result<>();
  if (vm->state() != MicrovmState::suspended) {
    co_return fail(Code::conflict, Reason{"wrong_state"},
                   "the microVM is " + std::string(to_string(vm->state())),
                   Repair{"only a SUSPENDED one can be resumed"});
  }
  const Foreground foreground(needs_.foreground);
  const auto began = Deadline::Clock::now();
  (void)account(*vm, needs_.clock.now());
  FB_CO_TRY(co_await needs_.journal.commit(*vm, {.intent = Intent::resume}));
  needs_.steps.reach("resume");
  auto up = co_await bring_back(vm, deadline);
  if (up) {
    needs_.metrics.observe_ms("firebreak_resume_seconds", "", ms_since(began));
    co_return up;
  }
  needs_.journal.count_error(up.error());
  // One that ran is not what it was: it cannot be put back.
  if (vm->machine()) {
    co_await needs_.ending.end(vm, up.error().message, false);
  } else if (!co_await needs_.suspending.is_saved(*vm)) {
    co_await needs_.ending.end(vm, "Lost while it was resumed: " + up.error().message, false);
  } else {
    FB_CO_TRY(co_await needs_.journal.commit(
        *vm, {.intent = Intent::none, .reason = "Not resumed: " + up.error().message}));
  }
  co_return fail(up.error(), "resuming");
}

net::Task<void> Starting::refresh_credentials(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine();
  if (!machine || vm->record().role.empty()) co_return;
  json::object metadata = needs_.roles.metadata(*vm);
  const core::Time next = vm->refresh_at();
  vm->set_refresh_at(needs_.clock.now() + kRefreshAgain);
  auto set =
      co_await machine->agent().set_metadata(std::move(metadata), Deadline::in(kRefreshDeadline));
  if (set) {
    vm->set_refresh_at(next);
  } else if (vm->machine() == machine && vm->state() == MicrovmState::running) {
    needs_.log.warn("credentials not refreshed",
                    {{"id", vm->record().id.str()}, {"error", set.error().text()}});
  }
}

}  // namespace firebreak::control
