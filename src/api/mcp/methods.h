// The methods of the protocol, of both eras: what they take and what they answer. One executor.
#pragma once

#include <expected>

#include "api/mcp/tool.h"
#include "wire/mcp.h"

namespace firebreak::api::mcp {

enum class Era : std::uint8_t { legacy, modern };

// Who asks, and how it can be told of progress.
struct Asker {
  Era era = Era::legacy;
  session::SandboxOwner owner;
  session::Presence& caller;
  Progress& progress;
};

using MethodResult = std::expected<json::object, wire::mcp::RpcError>;

// What a client is told about this server.
json::object server_info();
// The answer to `initialize`; the version is the one that both speak from here on.
json::object initialized(const std::string& version);
// The version that a client gets who asked for one.
std::string negotiated(const json::object& params);

net::Task<MethodResult> run_method(Parts& parts, const Asker& asker,
                                   const wire::mcp::Message& request);

}  // namespace firebreak::api::mcp
