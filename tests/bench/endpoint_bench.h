// The endpoint: its proxy beside nginx in front of the same backend, and into real guests.
// Blocking.
#pragma once

#include "bench/report.h"

namespace firebreak::bench {

// The agent runs natively; all that is between client and backend has one core, nginx as well as
// our proxy with the agent.
Result<> bench_proxy(Report& report, int requests);
// A server with a guest: one request beside one over the same tunnel, and one that wakes.
Result<> bench_endpoint(Report& report, int count);

}  // namespace firebreak::bench
