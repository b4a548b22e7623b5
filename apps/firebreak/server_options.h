// The server's options as one table: command line, environment, configuration file, help and the
// page about operations are all made from it. Read once at start; any thread.
#pragma once

#include <string>

#include "arguments.h"
#include "server.h"

namespace firebreak::cli {

// Adds them to a command; they set `config`, which outlives it.
void add_server_options(Command& command, ServerConfig& config);

// Sets from the file what neither words nor the environment have set.
Result<> read_configuration(Command& command, const std::string& file);

// The table of docs/operations.md.
std::string server_options_page();

}  // namespace firebreak::cli
