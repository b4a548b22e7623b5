// The end of a microVM: TERMINATING is written, the last hook is called, everything it had on the
// host is removed, TERMINATED is written. One that cannot be removed stays TERMINATING and is tried
// again; it is never forgotten. Owned by the Supervisor; one executor.
#pragma once

#include <string>

#include "control/egress.h"
#include "control/journal.h"
#include "control/pauses.h"
#include "control/steps.h"
#include "machine/engines.h"

namespace firebreak::control {

// Why a machine has ended whose process ended by itself.
std::string why_ended(const machine::Machine& machine);

class Ending {
 public:
  struct Needs {
    const machine::Engines& engines;
    Journal& journal;
    LiveMicrovms& live;
    Egress& egress;
    const core::Clock& clock;
    Pauses& pauses;
    obs::Log& log;
    const Steps& steps;
  };
  explicit Ending(Needs needs) : needs_(needs) {}

  // Whatever it does -> TERMINATED. Takes the turn; what runs gives up at once.
  net::Task<Result<>> terminate(LivePtr vm, std::string reason, Deadline deadline);
  // The same with the turn held by the caller.
  net::Task<void> end(LivePtr vm, std::string reason, bool call_hook);
  // Writes what a transition came to that could not be written then. Takes the turn.
  net::Task<void> settle(LivePtr vm);
  // Puts right one whose machine is not what its state says: one that runs without a process is
  // ended, what runs beside a saved state as well. True: it was, or is well. Takes the turn.
  net::Task<bool> mend(LivePtr vm, net::asio::thread_pool& pool);
  // Removes what its engine has of it.
  net::Task<Result<>> discard(const LiveMicrovm& vm, Deadline deadline);

 private:
  net::Task<Result<>> remove_machine(LivePtr vm);
  // Only where the image says how: the end of others is the end of their machine, at once.
  static net::Task<void> stop_application(LiveMicrovm& vm);

  Needs needs_;
};

}  // namespace firebreak::control
