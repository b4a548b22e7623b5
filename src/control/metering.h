// What a microVM used until now, added to its meter. The owner serialises calls; one executor.
#pragma once

#include "control/live_microvm.h"

namespace firebreak::control {

// Counts the time since the meter was last advanced to what the microVM did in it. False: nothing
// can be said now (it has not run yet, or its process cannot be asked); nothing is counted then,
// and the next call makes up for it. `last`: there is no next one, so the time counts all the same.
bool account(LiveMicrovm& vm, core::Time now, bool last = false);

// What its machine's process used so far was not for the tenant: it counts from here on.
void begin_running(LiveMicrovm& vm, core::Time now);

}  // namespace firebreak::control
