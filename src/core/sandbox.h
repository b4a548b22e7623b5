// What governs code that agents run: templates of a tenant, its sandbox policy, sessions and the
// record of each call. Plain values as the store returns them; pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::core {

using SessionId = Id<struct SessionTag>;        // "session-" and a UUID
using InvocationId = Id<struct InvocationTag>;  // "invocation-" and a UUID
SessionId new_session_id();
InvocationId new_invocation_id();

// An agent or a turn, as its caller names it: 1 to 128 printable characters without spaces.
Result<> check_agent_name(std::string_view what, std::string_view name);

// --- templates

// What a session may reach: one of these, or the name of an egress policy.
inline constexpr std::string_view kDefaultPublic = "default-public";  // the internet
inline constexpr std::string_view kInternalOnly = "internal-only";    // nothing
// The name of an egress policy.
std::string egress_of_environment(std::string_view environment);

inline constexpr const char* kDefaultTemplate = "default";

struct SandboxTemplate {
  std::string name;
  std::string image{"python"};
  std::string environment{kDefaultPublic};
  std::vector<std::string> languages{"python"};  // the first is taken when a call names none
  Seconds call_limit{60};
  Seconds session_limit{8 * 3600};
  Seconds idle_limit{30 * 60};
  std::uint32_t calls_limit = 1000;           // of one session
  std::uint64_t stdout_limit = 256UL * 1024;  // bytes in an answer
  std::uint64_t stderr_limit = 32UL * 1024;
  std::optional<std::uint64_t> cpu_seconds_limit;  // of one session
  std::string role;                                // empty: no credentials
  std::map<std::string, std::string> tags;
  friend bool operator==(const SandboxTemplate&, const SandboxTemplate&) = default;
};
json::object to_json(const SandboxTemplate& value);
// Members that are absent stay as in `from`; unknown ones are refused.
Result<SandboxTemplate> template_from_json(const json::object& object, SandboxTemplate from = {});

// --- policies

enum class Tier : std::uint8_t { standard, regulated };
std::string_view to_string(Tier tier);
std::optional<Tier> parse_tier(std::string_view text);

inline constexpr std::uint32_t kMaxRetentionDays = 180;

struct SandboxPolicy {
  Tier tier = Tier::standard;
  bool enabled = true;
  std::uint32_t retention_days = 30;  // of records; at most kMaxRetentionDays
  bool keep_output = true;            // otherwise hashes and sizes only
  friend bool operator==(const SandboxPolicy&, const SandboxPolicy&) = default;
};
// What a tenant of that tier has until somebody says otherwise: regulated ones have no sandbox, and
// nothing of what their code prints is kept.
SandboxPolicy usual_policy(Tier tier);
// The template that a tenant has without making one.
SandboxTemplate usual_template(Tier tier);
json::object to_json(const SandboxPolicy& policy);
// A member `tier` that differs from `from` begins with what is usual in that tier.
Result<SandboxPolicy> policy_from_json(const json::object& object, SandboxPolicy from);

// --- sessions

struct SandboxSession {
  SessionId id;
  TenantId tenant;
  std::string agent;
  std::string turn;      // empty: the session is of one call, or was made by itself
  SandboxTemplate with;  // as it was when the session began
  MicrovmId microvm;     // empty until it is launched
  KeyId key;             // that began it
  Time created{};
  Time last_call{};
  std::uint32_t calls = 0;
  std::optional<Time> ended;
  std::string end_reason;
  friend bool operator==(const SandboxSession&, const SandboxSession&) = default;
};
// When time ends it, and why; nothing of one that has ended.
struct SessionEnd {
  Time at{};
  std::string why;
};
std::optional<SessionEnd> next_end(const SandboxSession& session);

// --- records

enum class ExitStatus : std::uint8_t { ok, error, timeout, oom, cap_exceeded, provisioning };
std::string_view to_string(ExitStatus status);
std::optional<ExitStatus> parse_exit_status(std::string_view text);

// One call. What is known before it ran is its intent; all of it is its record.
struct Invocation {
  InvocationId id;
  TenantId tenant;
  std::string agent;
  std::string turn;
  SessionId session;  // empty when none was begun
  std::string template_name;
  std::string language;
  KeyId key;              // the caller's
  std::string code_hash;  // SHA-256 in hexadecimal, equal for equal code of all tenants
  std::uint64_t code_bytes = 0;
  Time started{};
  Time expires{};  // the record is forgotten then
  // From here on: what came of it.
  ExitStatus exit_status = ExitStatus::error;
  std::string failure_reason;
  Millis duration{0};
  std::uint64_t stdout_bytes = 0;  // printed, before anything was cut
  std::uint64_t stderr_bytes = 0;
  bool stdout_truncated = false;
  bool stderr_truncated = false;
  std::string stdout_hash;  // of all that was printed
  std::string stderr_hash;
  friend bool operator==(const Invocation&, const Invocation&) = default;
};

}  // namespace firebreak::core
