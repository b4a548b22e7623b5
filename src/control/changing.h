// Changes of a microVM that lives: its policies, its name, its network. Owned by the Supervisor;
// one executor.
#pragma once

#include <string>

#include "control/starting.h"
#include "control/suspending.h"

namespace firebreak::control {

class Changing {
 public:
  struct Needs {
    Journal& journal;
    Egress& egress;
    Suspending& suspending;
    Starting& starting;
  };
  explicit Changing(Needs needs) : needs_(needs) {}

  // Policies, name: what has no effect on the machine. Takes the turn.
  net::Task<Result<>> change_record(LivePtr vm, store::MicrovmChange change, Deadline deadline);
  // Another network from now on; open connections that it does not allow are cut. One that had none
  // is suspended and resumed for it. Takes the turn.
  net::Task<Result<>> change_egress(LivePtr vm, std::string policy, Deadline deadline);

 private:
  Needs needs_;
};

}  // namespace firebreak::control
