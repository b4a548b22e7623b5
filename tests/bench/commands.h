// Runs a program and times it: for the floor and for the peers. Blocking.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report.h"

namespace firebreak::bench {

// Milliseconds until it ended with status 0; its output is thrown away.
Result<double> time_command(const std::vector<std::string>& argv);
Result<Samples> time_commands(const std::vector<std::string>& argv, int count);

}  // namespace firebreak::bench
