// A running guest onto the disk: its hook, its memory and disk saved, its process ended. One that
// cannot be saved runs on. Owned by the Supervisor; one executor.
#pragma once

#include <string>

#include "control/ending.h"
#include "control/outlet.h"

namespace firebreak::control {

class Suspending {
 public:
  struct Needs {
    const machine::Engines& engines;
    Journal& journal;
    Ending& ending;
    Egress& egress;
    Outlet& outlet;
    net::asio::thread_pool& pool;  // for what blocks
    const core::Clock& clock;
    obs::Metrics& metrics;
    const Steps& steps;
  };
  explicit Suspending(Needs needs) : needs_(needs) {}

  // RUNNING -> SUSPENDED. One that is suspended already is fine. Takes the turn.
  net::Task<Result<>> suspend(LivePtr vm, std::string reason, Deadline deadline);
  // SUSPENDING and its hook called -> SUSPENDED. The caller holds the turn.
  net::Task<Result<>> finish(LivePtr vm, Deadline deadline);
  // Saves copies of the running microVM under the ids of records that exist already. Takes the
  // turn.
  net::Task<Result<>> fork(LivePtr vm, std::vector<std::string> ids, Deadline deadline);

  // Looks up how much it has on disk.
  net::Task<void> note_stored(LiveMicrovm& vm);
  // Its saved state is whole, and was not used yet.
  net::Task<bool> is_saved(const LiveMicrovm& vm);

 private:
  Needs needs_;
};

// What a guest said about a failure, on its way into records, events and answers.
std::string said(Outlet& outlet, const LiveMicrovm& vm, std::string reason);
// Where the time of an operation went.
void observe(obs::Metrics& metrics, const machine::Phases& phases, std::string_view operation);

}  // namespace firebreak::control
