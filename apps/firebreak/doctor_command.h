// `firebreak doctor`: what this host can do for microVMs, and what to do about what it cannot.
// Owned by main; one thread.
#pragma once

#include <string>

#include "arguments.h"

namespace firebreak::cli {

// `data_dir` must outlive the parsing. `program_dir`: where the program lies.
void add_doctor_command(Command& root, const std::string& data_dir, const std::string& program_dir);

}  // namespace firebreak::cli
