#include "api/aws/aws_call.h"

#include <array>
#include <ctime>

#include <fmt/format.h>

#include "base/printable.h"

namespace firebreak::api {
namespace {

constexpr auto kReplyDeadline = std::chrono::seconds(30);

std::tm utc(core::Time time) {
  const std::time_t seconds = core::to_unix_ms(time) / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

std::string AwsCall::caller_arn() const {
  if (caller.session)
    return "arn:aws:sts::" + tenant().str() + ":assumed-role/" + caller.session->role + "/" +
           caller.session->name;
  return "arn:aws:iam::" + tenant().str() + ":user/" +
         (caller.key.name.empty() ? caller.key.id.str() : caller.key.name);
}

AwsError AwsCall::denied(std::string_view action, std::string_view resource,
                         core::RoleVerdict verdict) const {
  return Error{
      Code::denied,
      fmt::format(
          "User: {} is not authorized to perform: {} on resource: {}{}", caller_arn(), action,
          resource,
          verdict == core::RoleVerdict::denied
              ? " with an explicit deny in an identity-based policy"
              : fmt::format(" because no identity-based policy allows the {} action", action)),
      {}};
}

AwsResult<> AwsCall::allow(std::string_view action, std::string_view resource,
                           std::optional<std::string_view> prefix) const {
  if (!caller.session) return {};
  const core::RoleVerdict verdict =
      role ? core::decide(role->policy, {action, resource, prefix}) : core::RoleVerdict::denied;
  if (verdict == core::RoleVerdict::allowed) return {};
  return std::unexpected(denied(action, resource, verdict));
}

std::string http_date(core::Time time) {
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm t = utc(time);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays.at(static_cast<std::size_t>(t.tm_wday)), t.tm_mday,
                     kMonths.at(static_cast<std::size_t>(t.tm_mon)), t.tm_year + 1900, t.tm_hour,
                     t.tm_min, t.tm_sec);
}

std::string iso_date(core::Time time) {
  const std::tm t = utc(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, core::to_unix_ms(time) % 1000);
}

namespace {

void put_json(const json::value& value, std::string& out) {
  if (value.is_double()) {
    // Times are numbers; Boost would write them with an exponent.
    out += fmt::format("{:.3f}", value.as_double());
  } else if (const json::array* array = value.if_array()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      put_json((*array)[i], out);
    }
    out += ']';
  } else if (const json::object* object = value.if_object()) {
    out += '{';
    bool first = true;
    for (const auto& member : *object) {
      if (!first) out += ',';
      first = false;
      out += json::serialize(json::value(member.key()));
      out += ':';
      put_json(member.value(), out);
    }
    out += '}';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string aws_json(const json::value& value) {
  std::string out;
  put_json(value, out);
  // A message may repeat what the caller sent, which need not be UTF-8; JSON must be.
  return printable_json(out);
}

wire::Headers aws_headers(const std::string& request_id, std::string_view content_type) {
  wire::Headers headers{{"x-amzn-requestid", request_id}, {"x-amz-request-id", request_id}};
  if (!content_type.empty()) headers.push_back({"content-type", std::string(content_type)});
  return headers;
}

net::Task<Result<>> aws_reply(AwsCall& call, int status, std::string_view content_type,
                              std::string body) {
  co_return co_await call.exchange.reply(status, aws_headers(call.request_id, content_type),
                                         std::move(body), Deadline::in(kReplyDeadline));
}

net::Task<Result<>> aws_reply_json(AwsCall& call, int status, const json::value& body) {
  co_return co_await aws_reply(call, status, "application/json", aws_json(body));
}

}  // namespace firebreak::api
