#include "api/sts/sts_api.h"

#include <algorithm>

#include "base/text.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kNamespace = "https://sts.amazonaws.com/doc/2011-06-15/";

std::unexpected<AwsError> invalid(std::string message) {
  return refuse("ValidationError", 400, std::move(message));
}

AwsErrorName name_of(const AwsError& error) {
  if (!error.name.empty()) return {error.name, error.status};
  if (error.auth) {
    switch (*error.auth) {
      case AuthFailure::missing:
        return {"MissingAuthenticationToken", 403};
      case AuthFailure::malformed:
        return {"IncompleteSignature", 400};
      case AuthFailure::skewed:
      case AuthFailure::expired:
      case AuthFailure::mismatch:
        return {"SignatureDoesNotMatch", 403};
      case AuthFailure::unknown_key:
        return {"InvalidClientTokenId", 403};
      case AuthFailure::ended_session:
        return {"ExpiredToken", 403};
    }
  }
  if (error.error.code == Code::denied) return {"AccessDenied", 403};
  return error.error.code == Code::invalid ? AwsErrorName{"ValidationError", 400}
                                           : AwsErrorName{"InternalFailure", 500};
}

std::string answer(std::string_view action, const std::string& result, const std::string& id) {
  const std::string name(action);
  return "<" + name + "Response xmlns=\"" + std::string(kNamespace) + "\"><" + name + "Result>" +
         result + "</" + name + "Result><ResponseMetadata><RequestId>" + id +
         "</RequestId></ResponseMetadata></" + name + "Response>";
}

std::string element(std::string_view name, std::string_view text) {
  return "<" + std::string(name) + ">" + xml_escape(text) + "</" + std::string(name) + ">";
}

bool is_session_name(std::string_view text) {
  return text.size() >= 2 && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  std::string_view("_=,.@-").find(c) != std::string_view::npos;
         });
}

}  // namespace

AwsResult<std::string> StsApi::assume_role(const AwsCall& call, const Form& form) const {
  const auto value = [&form](const char* name) {
    const auto at = form.find(name);
    return at == form.end() ? std::string() : at->second;
  };
  const std::string arn = value("RoleArn");
  if (!arn.starts_with("arn:aws:iam::") || !arn.contains(":role/"))
    return invalid(arn + " is invalid");
  FB_TRY(call.allow("sts:AssumeRole", arn));
  // Whether a foreign role exists is not told.
  const auto named = core::parse_role_arn(arn);
  const control::RolePtr role =
      named && named->tenant == call.tenant() ? roles_.find(call.tenant(), named->name) : nullptr;
  if (!role)
    return std::unexpected(call.denied("sts:AssumeRole", arn, core::RoleVerdict::not_allowed));
  const std::string session = value("RoleSessionName");
  if (!is_session_name(session))
    return invalid(
        "1 validation error detected: Value at 'roleSessionName' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [\\w+=,.@-]*");
  for (const char* narrowing : {"Policy", "PolicyArns.member.1.arn"}) {
    if (!value(narrowing).empty())
      return invalid(
          "Session policies are not supported: the session would have more rights than "
          "you asked for");
  }
  // A role that takes another one keeps it for an hour at most.
  const std::uint64_t most = call.caller.session ? 3600 : 43200;
  const std::string asked = value("DurationSeconds");
  const auto seconds = asked.empty() ? std::optional<std::uint64_t>(3600) : parse_u64(asked);
  if (!seconds || *seconds < 900 || *seconds > most)
    return invalid(
        "1 validation error detected: Value at 'durationSeconds' failed to satisfy constraint: "
        "Member must have value between 900 and " +
        std::to_string(most));
  const control::RoleSession made{
      .role = role->name,
      .role_id = role->id,
      .name = session,
      .microvm = call.caller.session ? call.caller.session->microvm : core::MicrovmId()};
  FB_TRY_ASSIGN(const control::SessionKey key,
                keys_.issue_session(call.tenant(), call.caller.key.id, made,
                                    core::Seconds(static_cast<std::int64_t>(*seconds))));
  return "<Credentials>" + element("AccessKeyId", key.access_key_id) +
         element("SecretAccessKey", key.secret_access_key) + element("SessionToken", key.token) +
         element("Expiration", iso_date(key.expires)) + "</Credentials><AssumedRoleUser>" +
         element("AssumedRoleId", role->id + ":" + session) +
         element("Arn", "arn:aws:sts::" + call.tenant().str() + ":assumed-role/" + role->name +
                            "/" + session) +
         "</AssumedRoleUser>";
}

net::Task<AwsResult<>> StsApi::handle(AwsCall& call) {
  const auto sent = net::parse_target("/?" + call.body);
  if (!sent) co_return invalid("the form cannot be read");
  Form form;
  for (const auto& [name, value] : sent->query) form[name] = value;
  for (const auto& [name, value] : call.target.query) form.emplace(name, value);
  const std::string action = form["Action"];
  AwsResult<std::string> result = std::string();
  if (action == "GetCallerIdentity") {
    const auto& role_session = call.caller.session;
    result = element("Arn", call.caller_arn()) +
             element("UserId", role_session ? role_session->role_id + ":" + role_session->name
                                            : call.caller.key.id.str()) +
             element("Account", call.tenant().str());
  } else if (action == "AssumeRole") {
    result = assume_role(call, form);
  } else {
    co_return refuse("InvalidAction", 400,
                     "Could not find operation " + action + " for version " + form["Version"]);
  }
  if (!result) co_return std::unexpected(result.error());
  FB_CO_TRY(co_await aws_reply(call, 200, "text/xml", answer(action, *result, call.request_id)));
  co_return AwsResult<>();
}

AwsReply StsApi::render(const AwsError& error, const std::string& request_id) const {
  const AwsErrorName told = name_of(error);
  return {told.status, aws_headers(request_id, "text/xml"),
          "<ErrorResponse xmlns=\"" + std::string(kNamespace) + "\"><Error>" +
              element("Type", told.status < 500 ? "Sender" : "Receiver") +
              element("Code", told.name) + element("Message", error.error.message) + "</Error>" +
              element("RequestId", request_id) + "</ErrorResponse>"};
}

}  // namespace firebreak::api
