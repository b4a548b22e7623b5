#include "control/lifecycle.h"

#include "control/metering.h"
#include "control/version_config.h"
#include "image/hook_caller.h"
#include "image/signal_name.h"

namespace firebreak::control {
namespace {

using core::Hook;
using core::Intent;
using core::MicrovmState;

constexpr auto kStartDeadline = std::chrono::seconds(180);
constexpr auto kEndDeadline = std::chrono::seconds(30);
constexpr auto kStopDeadline = std::chrono::seconds(10);
// As a shell counts a process that a signal ended.
constexpr int kSignalCode = 128;
constexpr std::uint64_t kMib = 1024UL * 1024;
// QEMU's own memory beside the guest's.
constexpr std::uint64_t kProcessOverheadMib = 256;

std::chrono::microseconds since(Deadline::Clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Deadline::Clock::now() - began);
}

double ms_since(Deadline::Clock::time_point began) {
  return static_cast<double>(since(began).count()) / 1000;
}

}  // namespace

machine::HostLimits host_limits(const core::SizeClass& size) {
  return {.memory_bytes = (size.peak_memory_mib + kProcessOverheadMib) * kMib,
          .cpu_weight = std::max<std::uint32_t>(1, size.baseline_millicpu / 10),
          .cpu_percent = size.peak_vcpus * 100};
}

void Lifecycle::observe(const machine::Phases& phases, std::string_view operation) {
  for (const machine::Phase& phase : phases) {
    services_.metrics.observe_ms(
        "firebreak_phase_seconds",
        obs::label("operation", operation) + "," + obs::label("phase", phase.name),
        static_cast<double>(phase.took.count()) / 1000);
  }
}

machine::Identity Lifecycle::identity_of(LiveMicrovm& vm) const {
  machine::Identity identity =
      machine::fresh_identity(vm.record.id.str(), vm.record.generation + 1);
  identity.network = egress_.has_network(vm);
  identity.metadata = roles_.metadata(vm);
  return identity;
}

// Writes the change, then tells everybody: the log, the metrics, those who wait.
net::Task<Result<>> Lifecycle::commit(LiveMicrovm& vm, store::MicrovmChange change,
                                      store::Durability durability) {
  change.id = vm.record.id;
  change.expected = vm.record.revision;
  change.at = services_.clock.now();
  if (change.state) change.meter = vm.meter;
  const MicrovmState from = vm.record.state;
  const core::Time since = vm.record.state_since;
  auto written = co_await services_.db.run(
      [&change](store::Store& store) { return store.change(change); }, durability);
  if (!written) {
    services_.log.error("store", {{"id", vm.record.id.str()}, {"error", written.error().text()}});
    services_.metrics.add("firebreak_errors_total",
                          obs::label("code", to_string(written.error().code)));
    registry_.note(vm);  // to be settled
    co_return std::unexpected(written.error());
  }
  vm.record = *std::move(written);
  registry_.note(vm);
  if (change.state && *change.state != from) {
    services_.log.info("transition", {{"id", vm.record.id.str()},
                                      {"tenant", vm.record.tenant.str()},
                                      {"from", to_string(from)},
                                      {"to", to_string(vm.record.state)},
                                      {"after_ms", (change.at - since).count()},
                                      {"reason", vm.record.state_reason}});
    services_.metrics.add("firebreak_transitions_total",
                          obs::label("to", to_string(vm.record.state)));
    vm.changed.notify();
    services_.changed.notify();
  }
  co_return Result<>();
}

net::Task<void> Lifecycle::watch_process(LivePtr vm, std::shared_ptr<machine::Machine> machine) {
  while (!co_await machine->wait_exit(Deadline::in(std::chrono::hours(24)))) {
  }
  auto turn = co_await vm->turn.lock(Deadline::in(std::chrono::hours(24)));
  // Suspended, terminated or resumed meanwhile: then the end was ours.
  if (!turn || vm->machine != machine) co_return;
  co_await end(vm, "The machine's process ended unexpectedly.", false);
}

// Its output is an exec object in the agent that remembers where we were.
net::Task<void> Lifecycle::watch_application(LivePtr vm,
                                             std::shared_ptr<machine::Machine> machine) {
  const Deadline deadline = Deadline::in(std::chrono::hours(24 * 365));
  auto output = co_await machine->agent().exec_output("app", vm->app_offset,
                                                      Deadline::in(std::chrono::seconds(30)));
  if (!output) co_return;
  const Passage passage{vm->record.tenant, vm->record.id, Origin::log};
  const auto out = services_.outlet.open(passage);
  const auto err = services_.outlet.open(passage);
  for (;;) {
    auto frame = co_await (*output)->next(deadline);
    if (!frame || !*frame) co_return;  // suspended or ended
    if ((*frame)->type != wire::FrameType::exit) {
      vm->app_offset = (*output)->offset();
      std::string& bytes = (*frame)->payload;
      if ((*frame)->type == wire::FrameType::out) bytes = out->pass(std::move(bytes));
      if ((*frame)->type == wire::FrameType::err) bytes = err->pass(std::move(bytes));
      (void)services_.app_log.append(vm->record.id, (*frame)->type, bytes);
      continue;
    }
    vm->app_ended = true;
    vm->app_changed.notify();
    auto exit = machine::parse_exit((*frame)->payload);
    int code = exit && exit->exit_code ? *exit->exit_code : 1;
    if (exit && exit->signal) code = kSignalCode + *exit->signal;
    auto turn = co_await vm->turn.lock(Deadline::in(std::chrono::hours(24)));
    if (!turn || vm->machine != machine || !core::app_is_pid1(vm->version)) co_return;
    co_await end(vm, "Container Stopped with Exit Code: " + std::to_string(code), false);
    co_return;
  }
}

void Lifecycle::watch(LivePtr vm) {
  const std::string id = vm->record.id.str();
  watchers_.spawn("watch_process", watch_process(vm, vm->machine), id);
  if (core::has_application(vm->version))
    watchers_.spawn("watch_application", watch_application(vm, vm->machine), id);
}

// ------------------------------------------------------------------------------------------ launch

net::Task<Result<>> Lifecycle::restore(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto slot, co_await starts_.lock(vm->record.tenant, deadline));
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(vm->record.engine));
  FB_CO_TRY_ASSIGN(auto snapshot,
                   co_await services_.catalogue.load(core::snapshot_of(vm->version), deadline));
  const machine::LaunchSpec spec{.id = vm->record.id.str(),
                                 .limits = host_limits(vm->size),
                                 .network = egress_.has_network(*vm)};
  FB_CO_TRY_ASSIGN(vm->machine, co_await engine->restore(snapshot, spec, deadline));
  observe(vm->machine->phases(), "restore");
  FB_CO_TRY(co_await egress_.admit(vm, deadline));
  co_return co_await vm->machine->wake(identity_of(*vm), deadline);
}

net::Task<Result<>> Lifecycle::bring_up(LivePtr vm, std::shared_ptr<machine::Machine> parked) {
  const Deadline deadline = Deadline::in(kStartDeadline);
  if (parked) {
    vm->machine = std::move(parked);
    Result<> up = co_await egress_.admit(vm, deadline);
    if (up) up = co_await vm->machine->unpark(identity_of(*vm), deadline);
    if (up) {
      observe(vm->machine->phases(), "unpark");
      services_.metrics.add("firebreak_launches_total", obs::label("path", "parked"));
      co_return Result<>();
    }
    services_.log.warn("parked clone failed",
                       {{"id", vm->record.id.str()}, {"error", up.error().text()}});
    (void)co_await vm->machine->terminate(Deadline::in(kEndDeadline));
    vm->machine.reset();
  }
  services_.metrics.add("firebreak_launches_total", obs::label("path", "restored"));
  co_return co_await restore(vm, deadline);
}

// What a guest said about a failure, on its way into records, events and answers.
std::string Lifecycle::said(const LiveMicrovm& vm, std::string reason) {
  return services_.outlet.pass_whole({vm.record.tenant, vm.record.id, Origin::reason},
                                     std::move(reason));
}

// The hook, then RUNNING: nobody is told before the application said yes.
net::Task<Result<>> Lifecycle::say_running(LivePtr vm, Hook hook, std::string body) {
  services_.reach("hook");
  auto failure =
      co_await image::call_hook(vm->machine->agent(), vm->version.hooks, hook, std::move(body));
  if (failure) co_return fail(Code::guest, said(*vm, failure->reason));
  services_.reach("hooked");
  if (vm->end_asked) co_return fail(Code::conflict, "Terminated while starting.");
  const core::Time now = services_.clock.now();
  vm->activity.saw_traffic(now);
  begin_running(*vm, now);
  // After a power cut PENDING, resuming and RUNNING are the same: gone. The engine sees to it that
  // no saved state is used twice.
  FB_CO_TRY(co_await commit(*vm,
                            {.state = MicrovmState::running,
                             .intent = Intent::none,
                             .reason = "",
                             .generation = vm->record.generation + 1,
                             .clear_payload = true},
                            store::Durability::later));
  services_.reach("running");
  watch(vm);
  co_return Result<>();
}

net::Task<void> Lifecycle::launch(LivePtr vm, std::shared_ptr<machine::Machine> parked) {
  const Foreground foreground(services_);
  const auto began = Deadline::Clock::now();
  auto turn = co_await vm->turn.lock(Deadline::in(kStartDeadline));
  if (!turn) co_return;
  services_.reach("launch");
  auto up = co_await bring_up(vm, std::move(parked));
  services_.reach("woken");
  if (up) {
    for (const image::LoadedBase& base : services_.catalogue.loaded()) {
      if (base.snapshot == core::snapshot_of(vm->version))
        vm->meter.total.snapshot_read_bytes += base.ram_bytes;
    }
    up = co_await say_running(vm, Hook::run,
                              core::run_hook_body(vm->record.id.str(), vm->record.payload));
  }
  if (!up) {
    services_.metrics.add("firebreak_errors_total", obs::label("code", to_string(up.error().code)));
    services_.log.warn("launch failed",
                       {{"id", vm->record.id.str()}, {"error", up.error().text()}});
    co_await end(vm, up.error().message, false);
    co_return;
  }
  services_.metrics.observe_ms("firebreak_launch_seconds", "", ms_since(began));
  co_await egress_.leave_unused(vm);
}

net::Task<void> Lifecycle::launch_fork(LivePtr vm) {
  const Foreground foreground(services_);
  auto turn = co_await vm->turn.lock(Deadline::in(kStartDeadline));
  if (!turn) co_return;
  if (vm->record.state != MicrovmState::pending) {
    // Ended before the fork was done: what it has written since belongs to nobody.
    (void)co_await discard(*vm, Deadline::in(kEndDeadline));
    co_return;
  }
  co_await note_stored(*vm);
  auto up = co_await bring_back(vm, Deadline::in(kStartDeadline));
  if (!up) co_await end(vm, up.error().message, false);
}

// --------------------------------------------------------------------------------- suspend, resume

net::Task<void> Lifecycle::note_stored(LiveMicrovm& vm) {
  auto count = [engine = services_.engines.get(vm.record.engine), id = vm.record.id.str()]() {
    return engine ? (*engine)->stored_bytes(id) : 0;
  };
  vm.stored_bytes = co_await services_.blocking(std::move(count));
}

net::Task<bool> Lifecycle::is_saved(const LiveMicrovm& vm) {
  auto look = [engine = services_.engines.get(vm.record.engine), id = vm.record.id.str()]() {
    return engine && (*engine)->is_suspended(id);
  };
  co_return co_await services_.blocking(std::move(look));
}

net::Task<Result<>> Lifecycle::finish_suspend(LivePtr vm, Deadline deadline) {
  // What it used until now, before its counters are gone.
  (void)account(*vm, services_.clock.now());
  auto saved = co_await vm->machine->suspend(deadline);
  if (!saved) co_return saved;
  services_.reach("saved");
  co_await egress_.dismiss(vm);
  observe(vm->machine->phases(), "suspend");
  vm->machine.reset();
  co_await note_stored(*vm);
  vm->meter.total.snapshot_written_bytes += vm->stored_bytes;
  co_return co_await commit(*vm, {.state = MicrovmState::suspended, .intent = Intent::none});
}

net::Task<Result<>> Lifecycle::suspend(LivePtr vm, std::string reason, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine, services_.engines.get(vm->record.engine));
  FB_CO_TRY(machine::require(*engine, machine::Feature::suspend));
  if (vm->record.state == MicrovmState::suspended) co_return Result<>();
  if (vm->record.state != MicrovmState::running) {
    co_return fail(Code::conflict, "the microVM is " + std::string(to_string(vm->record.state)) +
                                       "; only a RUNNING one can be suspended");
  }
  const auto began = Deadline::Clock::now();
  FB_CO_TRY(co_await commit(
      *vm, {.state = MicrovmState::suspending, .intent = Intent::suspend, .reason = reason}));
  services_.reach("suspending");
  auto failure =
      co_await image::call_hook(vm->machine->agent(), vm->version.hooks, Hook::suspend, {});
  if (failure) {
    const std::string why = said(*vm, failure->reason);
    co_await end(vm, why, false);
    co_return fail(Code::guest, why);
  }
  services_.reach("suspend.hooked");
  auto done = co_await finish_suspend(vm, deadline);
  if (done) {
    services_.metrics.observe_ms("firebreak_suspend_seconds", "", ms_since(began));
    co_return done;
  }
  // The machine thawed the guest when it could not save it.
  if (vm->machine && !co_await vm->machine->wait_exit(Deadline::in(std::chrono::seconds(0)))) {
    FB_CO_TRY(co_await commit(*vm, {.state = MicrovmState::running,
                                    .intent = Intent::none,
                                    .reason = "Not suspended: " + done.error().message}));
  } else if (vm->machine) {
    co_await end(vm, "The machine's process ended unexpectedly.", false);
  }
  co_return done;
}

// From the saved state on disk to RUNNING, for a resume and for the child of a fork.
net::Task<Result<>> Lifecycle::bring_back(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto slot, co_await starts_.lock(vm->record.tenant, deadline));
  // Giving up half-way would end it, so a caller who has waited long already gets all the time.
  deadline = Deadline::in(kStartDeadline);
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(vm->record.engine));
  auto machine = co_await engine->resume(vm->record.id.str(), deadline, egress_.has_network(*vm));
  slot.release();
  if (!machine) co_return std::unexpected(machine.error());
  vm->machine = *std::move(machine);
  observe(vm->machine->phases(), "resume");
  services_.reach("resumed");
  FB_CO_TRY(vm->machine->set_limits(host_limits(vm->size)));
  const auto admitting = Deadline::Clock::now();
  FB_CO_TRY(co_await egress_.admit(vm, deadline));
  observe({{"admit", since(admitting)}}, "resume");
  auto woken = co_await vm->machine->wake(identity_of(*vm), deadline);
  if (!woken) co_return fail(woken.error(), "waking the microVM");
  observe(vm->machine->phases(), "resume");
  vm->meter.total.snapshot_read_bytes += vm->stored_bytes;
  co_return co_await say_running(vm, Hook::resume, {});
}

net::Task<Result<>> Lifecycle::resume(LivePtr vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  // Refused before anything is written when this server does not have its engine.
  FB_CO_TRY(services_.engines.get(vm->record.engine));
  if (vm->record.state == MicrovmState::running) co_return Result<>();
  if (vm->record.state != MicrovmState::suspended) {
    co_return fail(Code::conflict, "the microVM is " + std::string(to_string(vm->record.state)) +
                                       "; only a SUSPENDED one can be resumed");
  }
  const Foreground foreground(services_);
  const auto began = Deadline::Clock::now();
  (void)account(*vm, services_.clock.now());
  FB_CO_TRY(co_await commit(*vm, {.intent = Intent::resume}));
  services_.reach("resume");
  auto up = co_await bring_back(vm, deadline);
  if (up) {
    services_.metrics.observe_ms("firebreak_resume_seconds", "", ms_since(began));
    co_return up;
  }
  services_.metrics.add("firebreak_errors_total", obs::label("code", to_string(up.error().code)));
  // One that ran is not what it was: it cannot be put back.
  if (vm->machine) {
    co_await end(vm, up.error().message, false);
  } else if (!co_await is_saved(*vm)) {
    co_await end(vm, "Lost while it was resumed: " + up.error().message, false);
  } else {
    FB_CO_TRY(co_await commit(
        *vm, {.intent = Intent::none, .reason = "Not resumed: " + up.error().message}));
  }
  co_return fail(up.error(), "resuming");
}

// ------------------------------------------------------------------------------- terminate

net::Task<Result<>> Lifecycle::discard(const LiveMicrovm& vm, Deadline deadline) {
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(vm.record.engine));
  co_return co_await engine->discard(vm.record.id.str(), deadline);
}

net::Task<Result<>> Lifecycle::remove_machine(LivePtr vm) {
  co_await egress_.dismiss(vm);
  Result<> removed;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Deadline deadline = Deadline::in(kEndDeadline);
    removed =
        vm->machine ? co_await vm->machine->terminate(deadline) : co_await discard(*vm, deadline);
    if (removed) break;
    net::Event pause(services_.executor);
    (void)co_await pause.wait(Deadline::in(std::chrono::milliseconds(200)));
  }
  co_return removed;
}

// Only where the image says how: the end of others is the end of their machine, at once.
net::Task<void> Lifecycle::stop_application(LiveMicrovm& vm) {
  const auto config = config_of(vm.version);
  if (!config || config->stop_signal.empty()) co_return;
  const std::optional<int> signal = image::signal_number(config->stop_signal);
  const Deadline deadline = Deadline::in(kStopDeadline);
  if (!signal || !co_await vm.machine->agent().signal_exec("app", *signal, deadline)) co_return;
  while (!vm.app_ended && !deadline.passed()) (void)co_await vm.app_changed.wait(deadline);
}

net::Task<void> Lifecycle::end(LivePtr vm, std::string reason, bool call_hook) {
  if (vm->record.state != MicrovmState::terminating) {
    // Not written: it is looked at again by the ticker, and after a restart.
    vm->unended = reason;
    if (!co_await commit(*vm, {.state = MicrovmState::terminating,
                               .intent = Intent::terminate,
                               .reason = reason,
                               .clear_payload = true})) {
      co_return;
    }
  }
  vm->unended.reset();
  services_.reach("terminating");
  if (call_hook && vm->machine) {
    vm->in_last_hook = true;
    (void)co_await image::call_hook(vm->machine->agent(), vm->version.hooks, Hook::terminate, {});
    vm->in_last_hook = false;
    co_await stop_application(*vm);
  }
  (void)account(*vm, services_.clock.now(), true);
  auto removed = co_await remove_machine(vm);
  services_.reach("removed");
  if (!removed) {
    services_.log.error("cannot remove machine",
                        {{"id", vm->record.id.str()}, {"error", removed.error().text()}});
    services_.metrics.add("firebreak_errors_total",
                          obs::label("code", to_string(removed.error().code)));
    co_return;  // stays TERMINATING: the ticker tries again
  }
  vm->machine.reset();
  if (co_await commit(*vm, {.state = MicrovmState::terminated, .intent = Intent::none})) {
    registry_.remove(vm->record.id);
  }
}

bool Lifecycle::is_under_way(const LiveMicrovm& vm) {
  switch (vm.record.state) {
    case MicrovmState::suspending:
      return true;
    case MicrovmState::running:
    case MicrovmState::suspended:
      return vm.unended || vm.record.intent != Intent::none;
    case MicrovmState::pending:
      return vm.unended.has_value();
    case MicrovmState::terminating:
    case MicrovmState::terminated:
      return false;
  }
  return false;
}

net::Task<void> Lifecycle::settle(LivePtr vm) {
  // What its machine is can be told by its engine only.
  if (!is_unsettled(*vm) || !services_.engines.get(vm->record.engine)) co_return;
  auto turn = co_await vm->turn.lock(Deadline::in(kEndDeadline));
  if (!turn) co_return;
  if (vm->unended) co_return co_await end(vm, std::string(*vm->unended), false);
  store::MicrovmChange change{.intent = Intent::none};
  // One that could not be saved was thawed; one that was has no machine any more.
  if (vm->record.state == MicrovmState::suspending)
    change.state = vm->machine ? MicrovmState::running : MicrovmState::suspended;
  (void)co_await commit(*vm, std::move(change));
}

net::Task<Result<>> Lifecycle::terminate(LivePtr vm, std::string reason, Deadline deadline) {
  FB_CO_TRY(services_.engines.get(vm->record.engine));
  vm->end_asked = true;
  // A launch or resume that waits for a hook of a minute gives up at once.
  const bool starting =
      vm->record.state == MicrovmState::pending || vm->record.intent == Intent::resume;
  if (starting && vm->machine) vm->machine->agent().close();
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  if (vm->record.state == MicrovmState::terminated) co_return Result<>();
  const bool call_hook = vm->record.state == MicrovmState::running;
  co_await end(vm, std::move(reason), call_hook);
  if (vm->record.state != MicrovmState::terminated) {
    co_return fail(Code::unavailable, "the microVM could not be removed yet; it is tried again");
  }
  co_return Result<>();
}

}  // namespace firebreak::control
