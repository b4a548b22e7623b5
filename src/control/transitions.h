// The parts that change one microVM, wired to each other: what each does is in its own header. An
// arrow is "uses": starting -> suspending, watching -> ending -> journal. Owned by the Supervisor;
// one executor.
#pragma once

#include "control/changing.h"
#include "control/ending.h"
#include "control/foreground.h"
#include "control/journal.h"
#include "control/services.h"
#include "control/starting.h"
#include "control/suspending.h"
#include "control/watching.h"

namespace firebreak::control {

struct Transitions {
  Transitions(Services& services, LiveMicrovms& live, ForegroundWork& foreground);
  Transitions(const Transitions&) = delete;
  Transitions& operator=(const Transitions&) = delete;
  ~Transitions() = default;

  Journal journal;
  Egress egress;
  Roles roles;
  Ending ending;
  Watching watching;
  Suspending suspending;
  Starting starting;
  Changing changing;
};

}  // namespace firebreak::control
