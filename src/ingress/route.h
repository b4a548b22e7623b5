// Where a request to the endpoint listener wants to go, and with which token: read from its
// authority, path, headers and WebSocket subprotocols. The client is unknown. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace firebreak::ingress {

// How the microVM is named. Only host style gives each microVM an origin of its own in a browser.
enum class Style {
  path,   // https://HOST/vm/{endpointId}/...
  host,   // https://{endpointId}.DOMAIN/...
  token,  // any path; the token alone names it
};

struct Route {
  Style style = Style::token;
  std::string endpoint;  // id of the endpoint; empty in token style
  std::string target;    // for the application
  std::string token;
  std::optional<std::uint16_t> port;   // asked for
  bool force_h2 = false;               // HTTP/2 to the application
  bool websocket = false;              // a WebSocket handshake
  bool platform_protocols = false;     // `lambda-microvms` was offered as a subprotocol
  std::vector<std::string> protocols;  // the application's subprotocols
};

// `domain` is empty when host style is off. Code::denied: what names the token is malformed;
// Code::invalid: the port is.
Result<Route> read_route(const net::HttpRequest& request, std::string_view domain);

// Whether the path is one of the lifecycle hooks', however it is spelt.
bool is_hook_path(std::string_view target);

inline constexpr std::string_view kPathPrefix = "/vm/";
inline constexpr std::string_view kMarkerProtocol = "lambda-microvms";

}  // namespace firebreak::ingress
