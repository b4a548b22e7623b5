// The same root filesystem under other sandboxes, in the same run: runsc (gVisor, systrap) and
// bwrap (namespaces alone). Blocking.
#pragma once

#include <string>

#include "bench/report.h"

namespace firebreak::bench {

// A peer that is not installed or does not start here is an error that names it.
Result<> bench_peers(Report& report, const std::string& base_disk, const std::string& scratch,
                     int count);

}  // namespace firebreak::bench
