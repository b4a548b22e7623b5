// Sessions, calls in them and their records in the native API's JSON. Pure.
#pragma once

#include "base/json.h"
#include "session/sandboxes.h"

namespace firebreak::api {

json::object to_json(const core::SandboxSession& session);
json::object to_json(const core::Invocation& record);
// {ok, stdout, stderr, exit_status, duration_ms, error?, error_message?, dimension?, resets_at?,
// stdout_truncated?, stderr_truncated?, exit_code?, session_id, invocation_id}
json::object to_json(const session::CodeAnswer& answer);
// As UTC in words: 2026-11-18T07:00:00Z.
std::string utc_text(core::Time time);

}  // namespace firebreak::api
