// What a starting server does about what an earlier one left: every microVM in the store is
// re-adopted, finished or ended; every machine that no microVM owns is removed. MicroVMs of an
// engine that this server does not have stay as they are, and refuse every call. Used once, by the
// Supervisor, before anybody can call it. Guests that do not answer are not waited for: theirs hold
// their turn until they are settled, in the background.
#pragma once

#include <functional>
#include <string>

#include "control/services.h"
#include "control/transitions.h"

namespace firebreak::control {

struct Recovered {
  int adopted = 0;     // run on as if nothing had happened
  int suspended = 0;   // wait on disk
  int finished = 0;    // a transition that was under way was completed
  int ended = 0;       // could not be saved
  int removed = 0;     // machines that belonged to nobody
  int relaunched = 0;  // PENDING: launched again from the start
  int waiting = 0;     // left alone: this server does not have their engine
};

// Runs a task in the background of whoever outlives it: its name, and of which microVM it is.
using Spawn = std::function<void(std::string name, net::Task<void> task, std::string id)>;

net::Task<Result<Recovered>> recover(Services& services, LiveMicrovms& live,
                                     Transitions& transitions, Spawn spawn);

}  // namespace firebreak::control
