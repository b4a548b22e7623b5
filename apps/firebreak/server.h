// The server as a process: rights, signals, and the real host beneath it. Called by the serve
// command; one thread until it runs.
#pragma once

#include "base/result.h"
#include "server/server_config.h"

namespace firebreak::cli {

using server::ServerConfig;

// Returns when the server has ended after SIGTERM or SIGINT; the error says why it could not serve.
Result<> serve(const ServerConfig& config);

}  // namespace firebreak::cli
