// The agent put together: two ports, two threads, one tenant. run_as_init() is PID 1 of a guest;
// serve() is the same over any two descriptors.
#pragma once

#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "guest/cgroups.h"
#include "guest/identity.h"
#include "guest/port.h"

namespace firebreak::guest {

struct AgentParts {
  UniqueFd ctl;
  UniqueFd data;
  Port::Kind kind = Port::Kind::socket;
  // Both only in a guest.
  std::optional<CgroupTree> cgroups;
  std::unique_ptr<Identity> identity;
};

// Returns when both peers of sockets are gone; in a guest never.
Result<> serve(AgentParts parts);

[[noreturn]] void run_as_init();

}  // namespace firebreak::guest
