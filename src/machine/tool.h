// Runs a program of the host and collects what it prints. Blocks until it ends or the deadline
// passes; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"

namespace firebreak::machine {

// `command` begins with an absolute path. Standard output only, in the C locale; a program that has
// not ended by the deadline is killed. Code::unavailable when it ends with another status than 0.
Result<std::string> run_tool(const std::vector<std::string>& command, Deadline deadline);

}  // namespace firebreak::machine
