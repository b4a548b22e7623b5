// From a record to a guest that runs: by a parked clone, by a restore, or from a saved state.
// RUNNING is written after the application's hook said yes, and nobody is told before. One that
// cannot be started ends. Owned by the Supervisor; one executor.
#pragma once

#include <string>

#include "control/ending.h"
#include "control/foreground.h"
#include "control/outlet.h"
#include "control/roles.h"
#include "control/start_slots.h"
#include "control/suspending.h"
#include "control/watching.h"
#include "image/catalogue.h"

namespace firebreak::control {

// A restore takes a fraction of a second; a guest that has not answered by then waits without one.
inline constexpr std::chrono::seconds kSlotTime{3};

class Starting {
 public:
  struct Needs {
    const machine::Engines& engines;
    image::Catalogue& catalogue;
    Journal& journal;
    Ending& ending;
    Suspending& suspending;
    Watching& watching;
    Egress& egress;
    Roles& roles;
    Outlet& outlet;
    ForegroundWork& foreground;
    const core::Clock& clock;
    obs::Log& log;
    obs::Metrics& metrics;
    const Steps& steps;
  };
  Starting(Needs needs, const net::asio::any_io_executor& executor, std::uint32_t at_a_time)
      : needs_(needs), slots_(executor, at_a_time, kSlotTime) {}

  // PENDING -> RUNNING, or TERMINATED with the reason. `parked` may be null: then by restore.
  net::Task<void> launch(LivePtr vm, std::shared_ptr<machine::Machine> parked);
  // The child of a fork: PENDING with its saved state on disk.
  net::Task<void> launch_fork(LivePtr vm);
  // SUSPENDED -> RUNNING. One that runs already is fine.
  net::Task<Result<>> resume(LivePtr vm, Deadline deadline);
  // Gives a running guest other credentials of its role; one without a role is left alone.
  net::Task<void> refresh_credentials(LivePtr vm);
  // Who its guest is from the next wake on.
  machine::Identity identity_of(LiveMicrovm& vm) const;

 private:
  net::Task<Result<>> bring_up(LivePtr vm, std::shared_ptr<machine::Machine> parked);
  net::Task<Result<>> restore(LivePtr vm, Deadline deadline);
  // From the saved state on disk to RUNNING, for a resume and for the child of a fork.
  net::Task<Result<>> bring_back(LivePtr vm, Deadline deadline);
  // The hook, then RUNNING.
  net::Task<Result<>> say_running(LivePtr vm, core::Hook hook, std::string body);

  Needs needs_;
  StartSlots slots_;
};

}  // namespace firebreak::control
