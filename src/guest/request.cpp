#include "guest/request.h"

#include "base/text.h"

namespace firebreak::guest {

bool Request::has(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return true;
  }
  return false;
}

std::string_view Request::param(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return {};
}

Result<std::uint64_t> Request::number(std::string_view name, std::uint64_t fallback) const {
  if (!has(name)) return fallback;
  const auto value = parse_u64(param(name));
  if (!value) {
    return fail(Code::invalid,
                "query value '" + std::string(name) + "' must be a non-negative integer");
  }
  return *value;
}

namespace {
Result<std::string> decode(std::string_view text) {
  auto raw = percent_decode(text);
  if (!raw) return fail(Code::invalid, "broken percent-encoding in the path");
  if (raw->find('\0') != std::string::npos) return fail(Code::invalid, "NUL byte in the path");
  return *std::move(raw);
}
}  // namespace

Result<Request> parse_request(const wire::Headers& headers) {
  Request request;
  request.method = wire::find_header(headers, ":method");
  std::string_view target = wire::find_header(headers, ":path");
  if (request.method.empty() || target.empty() || target.front() != '/')
    return fail(Code::invalid, "not a request");
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  for (const std::string_view part : split(std::string_view(request.path).substr(1), '/')) {
    FB_TRY_ASSIGN(std::string segment, decode(part));
    request.segments.push_back(std::move(segment));
  }
  if (mark == std::string_view::npos) return request;
  for (const std::string_view part : split(target.substr(mark + 1), '&')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    FB_TRY_ASSIGN(std::string key, decode(part.substr(0, equals)));
    std::string value;
    if (equals != std::string_view::npos) {
      FB_TRY_ASSIGN(value, decode(part.substr(equals + 1)));
    }
    request.query.emplace_back(std::move(key), std::move(value));
  }
  return request;
}

int status_of(Code code) {
  switch (code) {
    case Code::invalid:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::exhausted:
      return 429;
    case Code::unavailable:
    case Code::timeout:
      return 503;
    case Code::corrupt:
      return 400;
    case Code::guest:
    case Code::internal:
      return 500;
  }
  return 500;
}

}  // namespace firebreak::guest
