// `firebreak serve`: options of the server. Owned by main; one thread.
#pragma once

#include <string>

#include "arguments.h"
#include "client.h"

namespace firebreak::cli {

// The data directory that all commands look in is the server's, too.
void add_serve_command(Command& root, const ServerChoice& choice, const std::string& program_dir);

}  // namespace firebreak::cli
