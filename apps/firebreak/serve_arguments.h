// The command `serve` in the description of the command line. Its options are declared with CLI11
// in serve_command.cpp; no other file sees that library's headers, which take seconds to compile.
#pragma once

#include <string>

#include "arguments.h"
#include "client.h"

namespace firebreak::cli {

// The data directory that all commands look in is the server's, too.
void add_serve_command(Command& root, const ServerChoice& choice, const std::string& program_dir);

}  // namespace firebreak::cli
