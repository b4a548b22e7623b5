// h2load, for the benchmarks of the endpoint. Blocking.
#pragma once

#include <string>

#include "base/result.h"

namespace firebreak::bench {

// Requests per second of a run with these arguments, on that core; an error when one of them
// failed.
Result<double> load(unsigned core, const std::string& arguments);

}  // namespace firebreak::bench
