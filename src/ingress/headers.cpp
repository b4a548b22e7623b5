#include "ingress/headers.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/http1.h"

namespace firebreak::ingress {
namespace {

using wire::HeaderField;

// RFC 9110 section 7.6.1 and what else ends at a proxy. Expect was answered by us.
constexpr std::array<std::string_view, 10> kOneConnection{
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
    "te",         "expect",     "http2-settings",   "content-length",    "trailer"};

// They change how a browser treats the whole host, not one answer.
constexpr std::array<std::string_view, 9> kWholeHost{"clear-site-data",
                                                     "strict-transport-security",
                                                     "alt-svc",
                                                     "service-worker-allowed",
                                                     "nel",
                                                     "report-to",
                                                     "expect-ct",
                                                     "origin-agent-cluster",
                                                     "public-key-pins"};

constexpr std::string_view kSandbox =
    "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

bool has(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

std::vector<std::string> connection_names(const wire::Headers& headers) {
  std::vector<std::string> names;
  for (const HeaderField& field : headers) {
    if (field.name != "connection") continue;
    for (const std::string& token : wire::split_list(field.value))
      names.push_back(wire::to_lower(token));
  }
  return names;
}

Result<std::optional<std::uint64_t>> content_length(const wire::Headers& headers) {
  std::optional<std::uint64_t> length;
  for (const HeaderField& field : headers) {
    if (field.name != "content-length") continue;
    const auto value = parse_u64(field.value);
    if (!value || (length && *length != *value))
      return fail(Code::invalid, "the content-length is not one number");
    length = value;
  }
  return length;
}

void add_websocket(const Route& route, wire::Headers& headers) {
  headers.push_back({"upgrade", "websocket"});
  std::string protocols;
  for (const std::string& name : route.protocols)
    protocols += (protocols.empty() ? "" : ", ") + name;
  if (!protocols.empty()) headers.push_back({"sec-websocket-protocol", std::move(protocols)});
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<net::UpstreamRequest> to_application(const net::HttpRequest& request, const Route& route,
                                            std::string_view request_id) {
  net::UpstreamRequest out{.method = request.method,
                           .target = route.target,
                           .authority = request.authority,
                           .headers = {},
                           .has_body = request.has_body,
                           .length = std::nullopt,
                           .upgrade = route.websocket};
  FB_TRY_ASSIGN(const auto length, content_length(request.headers));
  if (request.has_body) out.length = length;
  const std::vector<std::string> named = connection_names(request.headers);
  out.headers.reserve(request.headers.size() + 4);
  for (const HeaderField& field : request.headers) {
    if (has(kOneConnection, field.name) || field.name.starts_with("x-aws-proxy-") ||
        field.name == "x-amzn-requestid" || std::ranges::find(named, field.name) != named.end() ||
        (route.websocket && field.name == "sec-websocket-protocol"))
      continue;
    out.headers.push_back(field);
  }
  // The one value that has a meaning beyond the connection: gRPC servers ask for it.
  if (route.force_h2 && wire::has_token(wire::find_header(request.headers, "te"), "trailers"))
    out.headers.push_back({"te", "trailers"});
  out.headers.push_back({"x-amzn-requestid", std::string(request_id)});
  if (route.websocket) add_websocket(route, out.headers);
  return out;
}

std::string confine_cookie(std::string_view cookie, std::string_view path) {
  std::string out;
  std::string own(path);
  bool first = true;
  for (const std::string_view part : split(cookie, ';')) {
    const std::string_view attribute = trim(part);
    const auto equals = std::min(attribute.find('='), attribute.size());
    const std::string name = wire::to_lower(trim(attribute.substr(0, equals)));
    if (first) {
      out = attribute;
    } else if (name == "path") {
      const std::string_view value = trim(attribute.substr(std::min(equals + 1, attribute.size())));
      const bool inside = value == path || value.starts_with(std::string(path) + "/");
      own = inside                                   ? std::string(value)
            : value.starts_with('/') && value != "/" ? std::string(path) + std::string(value)
                                                     : std::string(path);
    } else if (name != "domain" && !attribute.empty()) {
      out.append("; ").append(attribute);
    }
    first = false;
  }
  return out + "; Path=" + own;
}

wire::Headers to_client(wire::Headers headers, const Route& route, std::string_view endpoint) {
  if (route.style == Style::host) return headers;
  const auto path = [endpoint] { return std::string(kPathPrefix).append(endpoint); };
  std::erase_if(headers, [](const HeaderField& field) { return has(kWholeHost, field.name); });
  for (HeaderField& field : headers) {
    if (field.name == "set-cookie") {
      field.value = confine_cookie(field.value, path());
    } else if (route.style == Style::path && field.name == "location" &&
               field.value.starts_with('/') && !field.value.starts_with("//")) {
      field.value.insert(0, path());
    }
  }
  headers.push_back({"content-security-policy", std::string(kSandbox)});
  return headers;
}

}  // namespace firebreak::ingress
