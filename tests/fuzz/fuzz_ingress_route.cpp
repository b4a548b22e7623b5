// Requests of any client at the endpoint: whatever the head says, the route is within its bounds,
// no token and no header of the platform's reaches the application, and what goes to it reads as
// one request. The same fields, taken for an answer's, stay below the microVM's path.
// The first byte chooses the version and whether host style is on.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "ingress/headers.h"
#include "wire/http1.h"

namespace {

using namespace firebreak;
using wire::Http1Parser;

constexpr std::string_view kDomain = "box.test";

void check(bool holds) {
  if (!holds) std::abort();
}

std::optional<net::HttpRequest> parse(std::string_view input, int version) {
  Http1Parser parser(Http1Parser::Role::request, {});
  const auto step = parser.step(input);
  if (!step || step->event != Http1Parser::Event::head) return std::nullopt;
  wire::Http1Head head = parser.take_head();
  net::HttpRequest request{.method = head.method,
                           .target = head.target,
                           .authority = std::string(wire::find_header(head.headers, "host")),
                           .headers = head.headers,
                           .version = version,
                           .has_body = head.chunked || head.content_length.value_or(0) > 0};
  std::erase_if(request.headers, [](const auto& field) { return field.name == "host"; });
  return request;
}

void check_route(const net::HttpRequest& request, const ingress::Route& route) {
  check(route.port.value_or(1) > 0);
  check(route.endpoint.find('/') == std::string::npos);
  switch (route.style) {
    case ingress::Style::path:
      check(request.target.starts_with("/vm/" + route.endpoint));
      check(route.target.starts_with('/') && request.target.ends_with(route.target.substr(1)));
      break;
    case ingress::Style::host:
      check(!route.endpoint.empty() && route.target == request.target);
      check(wire::to_lower(request.authority).starts_with(route.endpoint + "."));
      break;
    case ingress::Style::token:
      check(route.endpoint.empty() && route.target == request.target);
      break;
  }
  const auto path = wire::to_lower(route.target.substr(0, route.target.find_first_of("?#")));
  if (path.find("lambda-microvms") != std::string::npos) check(ingress::is_hook_path(route.target));
}

void check_inwards(const net::HttpRequest& request, const ingress::Route& route) {
  const auto inner = ingress::to_application(request, route, "the-id");
  if (!inner) return;
  std::size_t ids = 0;
  for (const auto& [name, value] : inner->headers) {
    check(!name.starts_with("x-aws-proxy-"));
    check(name != "connection" && name != "transfer-encoding" && name != "content-length");
    if (route.websocket && name == "sec-websocket-protocol")
      for (const std::string& protocol : wire::split_list(value))
        check(protocol != ingress::kMarkerProtocol &&
              !protocol.starts_with("lambda-microvms.authentication.") &&
              !protocol.starts_with("lambda-microvms.port."));
    if (name == "x-amzn-requestid") ids += value == "the-id" ? 1 : 2;
  }
  check(ids == 1);
  wire::Headers headers{{"host", inner->authority}};
  headers.insert(headers.end(), inner->headers.begin(), inner->headers.end());
  std::string out;
  if (!wire::put_request_head(inner->method, inner->target, headers, out)) return;
  Http1Parser parser(Http1Parser::Role::request, {.max_head_bytes = out.size() + 1});
  const auto step = parser.step(out);
  if (!step) return;  // the application would refuse it as well
  check(step->event == Http1Parser::Event::head && step->consumed == out.size());
  check(parser.head().target == route.target);
  check(!parser.head().chunked && !parser.head().content_length);
}

void check_cookie(std::string_view cookie, const std::string& path) {
  std::size_t paths = 0;
  bool first = true;
  for (std::string_view part : split(cookie, ';')) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    const std::string name = wire::to_lower(part.substr(0, part.find('=')));
    if (!first) check(name != "domain");
    if (!first && name == "path") {
      ++paths;
      const std::string_view value = part.substr(5);
      check(value == path || value.starts_with(path + "/"));
    }
    first = false;
  }
  check(paths == 1);
}

void check_outwards(const net::HttpRequest& request, const ingress::Route& route) {
  const wire::Headers headers = ingress::to_client(request.headers, route, "other-id");
  if (route.style == ingress::Style::host) return;
  check(headers.back().name == "content-security-policy" &&
        headers.back().value.starts_with("sandbox "));
  for (const auto& [name, value] : headers) {
    check(name != "clear-site-data" && name != "service-worker-allowed");
    if (name == "set-cookie") check_cookie(value, "/vm/other-id");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto request =
      parse({reinterpret_cast<const char*>(data) + 1, size - 1}, (data[0] & 1U) != 0 ? 2 : 1);
  if (!request) return 0;
  const auto route = ingress::read_route(*request, (data[0] & 2U) != 0 ? kDomain : "");
  if (!route) {
    check(route.error().code == Code::denied || route.error().code == Code::invalid);
    return 0;
  }
  check_route(*request, *route);
  check_inwards(*request, *route);
  check_outwards(*request, *route);
  return 0;
}
