// Launch and exec through a real server's API, beside the engine's own time for the same launches.
// Blocking.
#pragma once

#include "bench/report.h"

namespace firebreak::bench {

Result<> bench_api(Report& report, bool quick);

}  // namespace firebreak::bench
