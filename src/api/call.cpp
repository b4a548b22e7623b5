#include "api/call.h"

#include <algorithm>

#include "base/printable.h"
#include "base/text.h"

namespace firebreak::api {
namespace {
constexpr auto kReplyDeadline = std::chrono::seconds(30);
}  // namespace

net::Task<Result<json::object>> Call::json_body() {
  FB_CO_TRY_ASSIGN(const std::string text, co_await exchange.read_all(kMaxJsonBody, deadline));
  json::object body;
  if (!text.empty()) {
    FB_CO_TRY_ASSIGN(body, parse_json_object(text));
  }
  if (takes != nullptr) FB_CO_TRY(check_object(body, takes->body));
  co_return body;
}

std::optional<std::uint64_t> Call::number(std::string_view name) const {
  return parse_u64(target.query_value(name));
}

net::Task<Result<>> Call::reply_json(int status, const json::value& body) {
  co_return co_await exchange.reply(status, {{"content-type", "application/json"}},
                                    json::serialize(body) + "\n", Deadline::in(kReplyDeadline));
}

int http_status(Code code) {
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
      return 503;
    case Code::timeout:
      return 504;
    case Code::guest:
      return 502;
    case Code::corrupt:
    case Code::internal:
      return 500;
  }
  return 500;
}

json::object error_json(const Error& error) {
  json::object object{{"code", to_string(error.code)}, {"message", error.message}};
  if (!error.reason.empty()) object["reason"] = error.reason;
  if (!error.repair.empty()) object["repair"] = error.repair;
  if (error.resets_at_ms != 0) object["resetsAt"] = error.resets_at_ms;
  for (const auto& [name, value] : error.data) object[name] = value;
  return object;
}

namespace {
// A message may repeat what the caller sent, which need not be UTF-8; JSON must be.
std::string error_body(const Error& error) {
  return printable_json(json::serialize(error_json(error))) + "\n";
}
}  // namespace

net::Task<void> reply_error(net::HttpExchange& exchange, const Error& error) {
  if (exchange.started()) co_return;
  wire::Headers headers{{"content-type", "application/json"}};
  if (error.resets_at_ms != 0) {
    const auto now = core::to_unix_ms(core::SystemClock().now());
    const auto seconds = std::max<std::int64_t>(1, (error.resets_at_ms - now + 999) / 1000);
    headers.push_back({"retry-after", std::to_string(seconds)});
  }
  if (error.code == Code::unauthenticated) headers.push_back({"www-authenticate", "Bearer"});
  (void)co_await exchange.reply(http_status(error.code), std::move(headers), error_body(error),
                                Deadline::in(kReplyDeadline));
}

net::Task<Result<>> reply_wrong_method(net::HttpExchange& exchange,
                                       const std::vector<std::string>& methods) {
  std::string allowed;
  for (const std::string& method : methods) allowed += (allowed.empty() ? "" : ", ") + method;
  const Error error = fail(Code::invalid, Reason{"wrong_method"},
                           exchange.request().target + " has no " + exchange.request().method,
                           Repair{"use " + allowed})
                          .error();
  co_return co_await exchange.reply(405, {{"content-type", "application/json"}, {"allow", allowed}},
                                    error_body(error), Deadline::in(kReplyDeadline));
}

}  // namespace firebreak::api
