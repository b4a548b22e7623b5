// What a server needs before it begins: the rights to serve, and the addresses it serves on. Both
// are settled before anything is written or started. Called by serve(); one thread.
#pragma once

#include "base/result.h"
#include "net/bound_address.h"
#include "server/server_config.h"

namespace firebreak::server {

// Root, certificates that can be read, and no keys that travel in the clear unless somebody said
// that they may.
Result<> check_can_serve(const ServerConfig& config);

struct ServerAddresses {
  net::BoundAddress api;
  net::BoundAddress endpoints;
};
Result<ServerAddresses> take_addresses(const ServerConfig& config);

}  // namespace firebreak::server
