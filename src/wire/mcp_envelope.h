// What a request of MCP 2026-07-28 says about itself: in `_meta` of the body, and again in headers
// so that proxies can route it. Both must agree. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "wire/mcp.h"

namespace firebreak::wire::mcp {

inline constexpr std::string_view kVersionKey = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view kServerInfoKey = "io.modelcontextprotocol/serverInfo";

// Headers of a request; nullopt: not sent.
struct RoutingHeaders {
  std::optional<std::string> version;  // MCP-Protocol-Version
  std::optional<std::string> method;   // Mcp-Method
  std::optional<std::string> name;     // Mcp-Name
};

// The request is of the modern era: its body or its header says so.
bool is_modern(const Message& message, const RoutingHeaders& headers);

// What Mcp-Name must repeat; nullopt: this method has none, or the body lacks it.
std::optional<std::string> routed_name(const Message& message);

// A modern request whose body is complete and whose headers say the same; nullopt: it is fine.
std::optional<RpcError> check_envelope(const Message& request);
std::optional<RpcError> check_headers(const Message& request, const RoutingHeaders& headers);

// Header values that are no plain text travel as "=?base64?...?=". nullopt: the base64 is broken.
std::optional<std::string> decode_header(std::string_view value);
std::string encode_header(std::string_view value);

}  // namespace firebreak::wire::mcp
