// What builds of images cost, through the command line of a real server.
#pragma once

#include "base/result.h"
#include "bench/report.h"

namespace firebreak::bench {

Result<> bench_builds(Report& report, int count);

}  // namespace firebreak::bench
