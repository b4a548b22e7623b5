// Where the agent says what went wrong: the kernel log as PID 1, stderr otherwise. Any thread.
#pragma once

#include <string_view>

namespace firebreak::guest {

// Until called, lines go to stderr.
void log_to_kernel();
void log(std::string_view line);
// For a state the agent cannot go on from: logs, then powers off as PID 1, aborts otherwise.
[[noreturn]] void fatal(std::string_view line);

}  // namespace firebreak::guest
