// The endpoint: its proxy beside nginx in front of the same backend, and into real guests.
// Blocking.
#pragma once

#include "bench/report.h"

namespace firebreak::bench {

// The agent runs natively; each proxy has a core of its own, what is around it the others.
Result<> bench_proxy(Report& report, int requests);
// A server with a guest: one request beside one over the same tunnel, and one that wakes.
Result<> bench_endpoint(Report& report, int count);

}  // namespace firebreak::bench
