// The transitions of one microVM: what is done in which order, what is written before, what happens
// when a step fails. Owned by the Supervisor; one executor. Every call takes the microVM's turn
// unless it says otherwise.
#pragma once

#include <string>
#include <vector>

#include "control/egress.h"
#include "control/live_microvm.h"
#include "control/roles.h"
#include "control/services.h"
#include "control/start_slots.h"
#include "net/task_group.h"

namespace firebreak::control {

// Limits of the machine's process for a size: weight by baseline, ceiling by peak.
machine::HostLimits host_limits(const core::SizeClass& size);

// A restore takes a fraction of a second; a guest that has not answered by then waits without one.
inline constexpr std::chrono::seconds kSlotTime{3};

class Lifecycle {
 public:
  Lifecycle(Services& services, Registry& registry)
      : services_(services),
        registry_(registry),
        egress_(services, registry),
        roles_(services.db, services.clock, services.log, registry, services.keys,
               services.options.credential_life),
        starts_(services.executor, services.options.parallel_restores, kSlotTime),
        watchers_(services.executor, services.exceptions()) {}

  // PENDING -> RUNNING, or TERMINATED with the reason. `parked` may be null: then by restore.
  net::Task<void> launch(LivePtr vm, std::shared_ptr<machine::Machine> parked);
  // The child of a fork: PENDING with its saved state on disk.
  net::Task<void> launch_fork(LivePtr vm);
  // RUNNING -> SUSPENDED. One that is suspended already is fine.
  net::Task<Result<>> suspend(LivePtr vm, std::string reason, Deadline deadline);
  // SUSPENDED -> RUNNING. One that runs already is fine.
  net::Task<Result<>> resume(LivePtr vm, Deadline deadline);
  // Whatever it does -> TERMINATED.
  net::Task<Result<>> terminate(LivePtr vm, std::string reason, Deadline deadline);
  // Its record says that a transition is under way, or should be.
  static bool is_under_way(const LiveMicrovm& vm);
  // A transition ended half-way because the store could not be written, and nobody is at it.
  static bool is_unsettled(const LiveMicrovm& vm) { return vm.turn.idle() && is_under_way(vm); }
  // Writes what such a transition came to.
  net::Task<void> settle(LivePtr vm);
  // Saves copies of the running microVM under the ids of records that exist already.
  net::Task<Result<>> fork(LivePtr vm, std::vector<std::string> ids, Deadline deadline);
  // Policies, name: what has no effect on the machine.
  net::Task<Result<>> change_record(LivePtr vm, store::MicrovmChange change, Deadline deadline);

  // Another network from now on; open connections that it does not allow are cut. One that had none
  // is suspended and resumed for it.
  net::Task<Result<>> change_egress(LivePtr vm, std::string policy, Deadline deadline);
  Egress& egress() { return egress_; }
  // Gives a running guest other credentials of its role; one without a role is left alone.
  net::Task<void> refresh_credentials(LivePtr vm);
  Roles& roles() { return roles_; }

  // --- for recovery; the turn is held by the caller, or nobody else knows the microVM yet
  net::Task<Result<>> finish_suspend(LivePtr vm, Deadline deadline);
  net::Task<Result<>> commit(LiveMicrovm& vm, store::MicrovmChange change,
                             store::Durability durability = store::Durability::now);
  // How much it has on disk.
  net::Task<void> note_stored(LiveMicrovm& vm);
  // Its saved state is whole, and was not used yet.
  net::Task<bool> is_saved(const LiveMicrovm& vm);
  net::Task<void> end(LivePtr vm, std::string reason, bool call_hook);
  // Notices when the machine's process or the application ends by itself; logs what it prints.
  void watch(LivePtr vm);
  // Machines run on; what ends from here on is found by the next server. False: some still run.
  net::Task<bool> stop_watching(Deadline deadline) { return watchers_.close(deadline); }
  net::Task<Result<>> bring_back(LivePtr vm, Deadline deadline);
  machine::Identity identity_of(LiveMicrovm& vm) const;
  // Removes what its engine has of it.
  net::Task<Result<>> discard(const LiveMicrovm& vm, Deadline deadline);

 private:
  net::Task<void> watch_process(LivePtr vm, std::shared_ptr<machine::Machine> machine);
  net::Task<void> watch_application(LivePtr vm, std::shared_ptr<machine::Machine> machine);
  net::Task<Result<>> bring_up(LivePtr vm, std::shared_ptr<machine::Machine> parked);
  net::Task<Result<>> restore(LivePtr vm, Deadline deadline);
  std::string said(const LiveMicrovm& vm, std::string reason);
  net::Task<Result<>> say_running(LivePtr vm, core::Hook hook, std::string body);
  net::Task<Result<>> remove_machine(LivePtr vm);
  net::Task<void> stop_application(LiveMicrovm& vm);
  void observe(const machine::Phases& phases, std::string_view operation);

  Services& services_;
  Registry& registry_;
  Egress egress_;
  Roles roles_;
  StartSlots starts_;
  net::TaskGroup watchers_;  // last: they use what is above
};

}  // namespace firebreak::control
