// What of a message's head crosses the endpoint, both ways. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ingress/route.h"
#include "net/upstream.h"

namespace firebreak::ingress {

// For the application: without headers of one connection, without x-aws-proxy-*, with the request's
// id. Code::invalid: its framing could be read in two ways.
Result<net::UpstreamRequest> to_application(const net::HttpRequest& request, const Route& route,
                                            std::string_view request_id);

// For the client. Unless each microVM has its own host, an answer is kept from reaching into the
// origin it shares: cookies stay below the microVM's path, pages run in an origin of their own, and
// what would change the whole host is taken out. `endpoint`: the id of the endpoint.
wire::Headers to_client(wire::Headers headers, const Route& route, std::string_view endpoint);

// A Set-Cookie value, for the path alone and without a domain.
std::string confine_cookie(std::string_view cookie, std::string_view path);

}  // namespace firebreak::ingress
