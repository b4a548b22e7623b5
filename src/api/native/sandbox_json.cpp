#include "api/native/sandbox_json.h"

#include <array>
#include <ctime>

#include "api/native/output_json.h"

namespace firebreak::api {
namespace {

json::value time_or_null(const std::optional<core::Time>& time) {
  return time ? json::value(core::to_unix_ms(*time)) : json::value(nullptr);
}

std::string as_text(const std::string& bytes) {
  std::size_t tail = 0;
  return is_utf8(bytes, tail) && tail == 0 ? bytes : replace_invalid_utf8(bytes);
}

}  // namespace

std::string utc_text(core::Time time) {
  const std::time_t seconds = core::to_unix_ms(time) / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

json::object to_json(const core::SandboxSession& session) {
  return {{"id", session.id.str()},
          {"agentId", session.agent},
          {"turnId", session.turn.empty() ? json::value(nullptr) : json::value(session.turn)},
          {"template", session.with.name},
          {"environment", session.with.environment},
          {"microvm",
           session.microvm.empty() ? json::value(nullptr) : json::value(session.microvm.str())},
          {"key", session.key.str()},
          {"state", session.ended             ? "ENDED"
                    : session.microvm.empty() ? "STARTING"
                                              : "LIVE"},
          {"calls", session.calls},
          {"createdAt", core::to_unix_ms(session.created)},
          {"lastCallAt", core::to_unix_ms(session.last_call)},
          {"endedAt", time_or_null(session.ended)},
          {"endReason", session.end_reason}};
}

json::object to_json(const core::Invocation& record) {
  return {{"invocation_id", record.id.str()},
          {"tenant_id", record.tenant.str()},
          {"agent_id", record.agent},
          {"turn_id", record.turn},
          {"session_id", record.session.str()},
          {"template", record.template_name},
          {"language", record.language},
          {"key_id", record.key.str()},
          {"executed_code_hash", record.code_hash},
          {"code_bytes", record.code_bytes},
          {"exit_status", core::to_string(record.exit_status)},
          {"failure_reason", as_text(record.failure_reason)},
          {"duration_ms", record.duration.count()},
          {"stdout_bytes", record.stdout_bytes},
          {"stderr_bytes", record.stderr_bytes},
          {"stdout_truncated", record.stdout_truncated},
          {"stderr_truncated", record.stderr_truncated},
          {"stdout_hash", record.stdout_hash},
          {"stderr_hash", record.stderr_hash},
          {"started_at", utc_text(record.started)},
          {"expires_at", utc_text(record.expires)}};
}

json::object to_json(const session::CodeAnswer& answer) {
  json::object object{{"ok", answer.ok()},
                      {"stdout", as_text(answer.out)},
                      {"stderr", as_text(answer.err)},
                      {"exit_status", core::to_string(answer.record.exit_status)},
                      {"duration_ms", answer.record.duration.count()}};
  if (!answer.ok()) {
    object["error"] = answer.error;
    object["error_message"] = as_text(answer.error_message);
  }
  if (!answer.dimension.empty()) object["dimension"] = answer.dimension;
  if (answer.resets_at) object["resets_at"] = utc_text(*answer.resets_at);
  if (answer.record.stdout_truncated) object["stdout_truncated"] = true;
  if (answer.record.stderr_truncated) object["stderr_truncated"] = true;
  if (answer.exit_code) object["exit_code"] = *answer.exit_code;
  object["session_id"] = answer.record.session.empty() ? json::value(nullptr)
                                                       : json::value(answer.record.session.str());
  object["invocation_id"] = answer.record.id.str();
  return object;
}

}  // namespace firebreak::api
