// What the network of a guest costs: connections and bytes through its tap, under a policy of one
// rule and one of a thousand. Blocking.
#pragma once

#include "bench/report.h"

namespace firebreak::bench {

Result<> bench_egress(Report& report, int count);

}  // namespace firebreak::bench
