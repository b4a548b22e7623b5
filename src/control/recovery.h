// What a starting server does about what an earlier one left: every microVM in the store is
// re-adopted, finished or ended; every machine that no microVM owns is removed. Used once, by the
// Supervisor, before anybody can call it.
#pragma once

#include "control/lifecycle.h"
#include "control/live_microvm.h"
#include "control/services.h"

namespace firebreak::control {

struct Recovered {
  int adopted = 0;                // run on as if nothing had happened
  int suspended = 0;              // wait on disk
  int finished = 0;               // a transition that was under way was completed
  int ended = 0;                  // could not be saved
  int removed = 0;                // machines that belonged to nobody
  std::vector<LivePtr> relaunch;  // PENDING: to be launched again from the start
  std::vector<LivePtr> relaunch_forks;
};

net::Task<Result<Recovered>> recover(Services& services, Registry& registry, Lifecycle& lifecycle);

}  // namespace firebreak::control
