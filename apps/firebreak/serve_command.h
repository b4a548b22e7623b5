// `firebreak serve`: options of the server. Owned by main; one thread.
#pragma once

#include <string>
#include <vector>

#include "server.h"

namespace CLI {
class App;
}  // namespace CLI

namespace firebreak::cli {

// The arguments of `serve` with what the file given by --config adds: options that are set neither
// on the command line nor in the environment. An error names the file and the line or the key.
Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments);

CLI::App* add_serve(CLI::App& app, ServerConfig& config, const std::string& program_dir);
int run_serve(ServerConfig config);

}  // namespace firebreak::cli
