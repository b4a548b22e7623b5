#include "ingress/route.h"

#include <algorithm>

#include "base/text.h"
#include "net/websocket.h"
#include "wire/http1.h"

namespace firebreak::ingress {
namespace {

constexpr std::string_view kTokenProtocol = "lambda-microvms.authentication.";
constexpr std::string_view kPortProtocol = "lambda-microvms.port.";

Result<std::uint16_t> parse_port(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number == 0 || *number > 65535 || text.size() > 5)
    return fail(Code::invalid, "the port must be 1 to 65535");
  return static_cast<std::uint16_t>(*number);
}

// The only value of a header; nothing when it is absent, an error when there are several: the
// application behind another proxy might take the other one.
Result<std::optional<std::string_view>> single(const wire::Headers& headers,
                                               std::string_view name) {
  std::optional<std::string_view> value;
  for (const wire::HeaderField& field : headers) {
    if (field.name != name) continue;
    if (value) return fail(Code::denied, std::string(name) + " is given twice");
    value = field.value;
  }
  return value;
}

// The label before ".DOMAIN" of an authority with or without a port.
std::string_view endpoint_label(std::string_view authority, std::string_view domain) {
  authority = authority.substr(0, authority.find(':'));
  if (domain.empty() || authority.size() <= domain.size() + 1 ||
      wire::to_lower(authority.substr(authority.size() - domain.size())) != domain ||
      authority[authority.size() - domain.size() - 1] != '.')
    return {};
  return authority.substr(0, authority.size() - domain.size() - 1);
}

void read_place(const net::HttpRequest& request, std::string_view domain, Route& route) {
  route.target = request.target;
  const std::string_view label = endpoint_label(request.authority, domain);
  if (!label.empty()) {
    route.style = Style::host;
    route.endpoint = wire::to_lower(label);
    return;
  }
  if (!request.target.starts_with(kPathPrefix)) return;
  route.style = Style::path;
  const std::string_view rest = std::string_view(request.target).substr(kPathPrefix.size());
  const auto end = std::min(rest.find_first_of("/?"), rest.size());
  route.endpoint = rest.substr(0, end);
  route.target = rest.substr(end);
  if (!route.target.starts_with('/')) route.target.insert(0, "/");
}

Result<> read_protocols(const net::HttpRequest& request, Route& route) {
  std::optional<std::string> token;
  std::optional<std::uint16_t> port;
  for (std::string& name : net::websocket_protocols(request)) {
    if (name == kMarkerProtocol) {
      route.platform_protocols = true;
    } else if (name.starts_with(kTokenProtocol)) {
      if (token) return fail(Code::denied, "the token is given twice");
      token = name.substr(kTokenProtocol.size());
    } else if (name.starts_with(kPortProtocol)) {
      if (port) return fail(Code::invalid, "the port is given twice");
      FB_TRY_ASSIGN(port, parse_port(std::string_view(name).substr(kPortProtocol.size())));
    } else {
      route.protocols.push_back(std::move(name));
    }
  }
  // The marker is what makes the others ours to read.
  if ((token || port) && !route.platform_protocols)
    return fail(Code::denied, "the subprotocol lambda-microvms is missing");
  if (route.token.empty() && token) route.token = *std::move(token);
  if (!route.port) route.port = port;
  return {};
}

}  // namespace

Result<Route> read_route(const net::HttpRequest& request, std::string_view domain) {
  Route route;
  read_place(request, domain, route);
  FB_TRY_ASSIGN(const auto token, single(request.headers, "x-aws-proxy-auth"));
  if (token) route.token = *token;
  FB_TRY_ASSIGN(const auto port, single(request.headers, "x-aws-proxy-port"));
  if (port) {
    FB_TRY_ASSIGN(route.port, parse_port(*port));
  }
  route.force_h2 =
      wire::to_lower(wire::find_header(request.headers, "x-aws-proxy-force-h2")) == "true" ||
      // gRPC is HTTP/2 by definition.
      wire::find_header(request.headers, "content-type").starts_with("application/grpc");
  route.websocket = net::is_websocket_request(request);
  if (route.websocket) FB_TRY(read_protocols(request, route));
  return route;
}

bool is_hook_path(std::string_view target) {
  std::string path(target.substr(0, target.find_first_of("?#")));
  // As often as some server might decode it.
  for (int i = 0; i < 3; ++i) {
    const auto decoded = percent_decode(path);
    if (!decoded) break;
    path = *decoded;
  }
  path = wire::to_lower(path);
  std::ranges::replace(path, '\\', '/');
  return path.find("lambda-microvms") != std::string::npos;
}

}  // namespace firebreak::ingress
