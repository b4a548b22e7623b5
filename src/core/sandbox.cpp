#include "core/sandbox.h"

#include <algorithm>
#include <array>

#include "core/egress.h"

namespace firebreak::core {
namespace {

constexpr std::array kTemplateMembers{"name",        "image",          "environment", "languages",
                                      "callSeconds", "sessionSeconds", "idleSeconds", "calls",
                                      "stdoutBytes", "stderrBytes",    "cpuSeconds",  "role",
                                      "tags"};
constexpr std::array kPolicyMembers{"tier", "enabled", "retentionDays", "keepOutput"};
constexpr std::array kLanguages{"python", "bash", "node"};
constexpr std::uint64_t kLongestSession = 8UL * 3600;
constexpr std::uint64_t kMostShown = 16UL << 20;

template <class Known>
Result<> only(const json::object& object, const Known& known) {
  for (const auto& member : object) {
    if (std::ranges::find(known, std::string_view(member.key())) != known.end()) continue;
    std::string list;
    for (std::string_view one : known) list += (list.empty() ? "" : ", ") + std::string(one);
    return fail(Code::invalid, "member '" + std::string(member.key()) + "' is not known",
                Repair{"use " + list});
  }
  return {};
}

Result<> check_languages(const std::vector<std::string>& languages) {
  if (languages.empty() || languages.size() > kLanguages.size())
    return fail(Code::invalid, "languages must name one to three", Repair{"write [\"python\"]"});
  for (const std::string& language : languages)
    if (std::ranges::find(kLanguages, std::string_view(language)) == kLanguages.end())
      return fail(Code::invalid, "there is no language '" + language + "'",
                  Repair{"use python, bash or node"});
  return {};
}

std::uint64_t bounded(JsonReader& reader, std::string_view name, std::uint64_t from,
                      std::uint64_t most) {
  const std::uint64_t value = reader.u64_or(name, from);
  if (value == 0 || value > most) reader.reject(name, "must be 1 to " + std::to_string(most));
  return value;
}

// null takes the limit away.
std::optional<std::uint64_t> optional_number(JsonReader& reader, const json::object& object,
                                             std::string_view name,
                                             std::optional<std::uint64_t> from) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) return from;
  if (value->is_null()) return std::nullopt;
  return reader.u64(name);
}

json::value or_null(const std::optional<std::uint64_t>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

}  // namespace

SessionId new_session_id() {
  return SessionId("session-" + new_uuid());
}

InvocationId new_invocation_id() {
  return InvocationId("invocation-" + new_uuid());
}

Result<> check_agent_name(std::string_view what, std::string_view name) {
  const bool printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
  if (!name.empty() && name.size() <= 128 && printable) return {};
  return fail(Code::invalid, std::string(what) + " must be 1 to 128 characters without spaces",
              Repair{"use letters, digits and '-'"});
}

std::string egress_of_environment(std::string_view environment) {
  if (environment == kDefaultPublic) return std::string(kInternetEgress);
  if (environment == kInternalOnly) return std::string(kNoEgress);
  return std::string(environment);
}

json::object to_json(const SandboxTemplate& value) {
  json::array languages;
  for (const std::string& language : value.languages) languages.emplace_back(language);
  json::object tags;
  for (const auto& [name, text] : value.tags) tags[name] = text;
  return {{"name", value.name},
          {"image", value.image},
          {"environment", value.environment},
          {"languages", std::move(languages)},
          {"callSeconds", value.call_limit.count()},
          {"sessionSeconds", value.session_limit.count()},
          {"idleSeconds", value.idle_limit.count()},
          {"calls", value.calls_limit},
          {"stdoutBytes", value.stdout_limit},
          {"stderrBytes", value.stderr_limit},
          {"cpuSeconds", or_null(value.cpu_seconds_limit)},
          {"role", value.role},
          {"tags", std::move(tags)}};
}

Result<SandboxTemplate> template_from_json(const json::object& object, SandboxTemplate from) {
  FB_TRY(only(object, kTemplateMembers));
  JsonReader reader(object);
  from.name = reader.string_or("name", from.name);
  from.image = reader.string_or("image", from.image);
  from.environment = reader.string_or("environment", from.environment);
  if (reader.has("languages")) from.languages = reader.strings_or_empty("languages");
  const auto seconds = [&reader](std::string_view name, Seconds value) {
    return Seconds(
        bounded(reader, name, static_cast<std::uint64_t>(value.count()), kLongestSession));
  };
  from.call_limit = seconds("callSeconds", from.call_limit);
  from.session_limit = seconds("sessionSeconds", from.session_limit);
  from.idle_limit = seconds("idleSeconds", from.idle_limit);
  from.calls_limit =
      static_cast<std::uint32_t>(bounded(reader, "calls", from.calls_limit, 1'000'000));
  from.stdout_limit = bounded(reader, "stdoutBytes", from.stdout_limit, kMostShown);
  from.stderr_limit = bounded(reader, "stderrBytes", from.stderr_limit, kMostShown);
  from.cpu_seconds_limit = optional_number(reader, object, "cpuSeconds", from.cpu_seconds_limit);
  from.role = reader.string_or("role", from.role);
  if (reader.has("tags")) from.tags = reader.string_map_or_empty("tags");
  if (from.tags.size() > 50) reader.reject("tags", "must be at most 50");
  FB_TRY(reader.result());
  FB_TRY(check_image_name(from.name));
  FB_TRY(check_languages(from.languages));
  return from;
}

std::string_view to_string(Tier tier) {
  return tier == Tier::regulated ? "regulated" : "standard";
}

std::optional<Tier> parse_tier(std::string_view text) {
  for (const Tier tier : {Tier::standard, Tier::regulated})
    if (to_string(tier) == text) return tier;
  return std::nullopt;
}

SandboxPolicy usual_policy(Tier tier) {
  if (tier == Tier::standard) return {};
  return {.tier = tier, .enabled = false, .retention_days = 7, .keep_output = false};
}

SandboxTemplate usual_template(Tier tier) {
  SandboxTemplate usual;
  usual.name = kDefaultTemplate;
  if (tier == Tier::regulated) usual.environment = kInternalOnly;
  return usual;
}

json::object to_json(const SandboxPolicy& policy) {
  return {{"tier", to_string(policy.tier)},
          {"enabled", policy.enabled},
          {"retentionDays", policy.retention_days},
          {"keepOutput", policy.keep_output}};
}

Result<SandboxPolicy> policy_from_json(const json::object& object, SandboxPolicy from) {
  FB_TRY(only(object, kPolicyMembers));
  JsonReader reader(object);
  if (reader.has("tier")) {
    const auto tier = parse_tier(reader.string("tier"));
    if (!tier)
      reader.reject("tier", "must be standard or regulated");
    else if (*tier != from.tier)
      from = usual_policy(*tier);
  }
  from.enabled = reader.boolean_or("enabled", from.enabled);
  from.keep_output = reader.boolean_or("keepOutput", from.keep_output);
  from.retention_days = static_cast<std::uint32_t>(
      bounded(reader, "retentionDays", from.retention_days, kMaxRetentionDays));
  FB_TRY(reader.result());
  return from;
}

std::optional<SessionEnd> next_end(const SandboxSession& session) {
  if (session.ended) return std::nullopt;
  const Time old = session.created + session.with.session_limit;
  const Time idle = session.last_call + session.with.idle_limit;
  if (old <= idle) return SessionEnd{old, "The session's time is over."};
  return SessionEnd{idle, "Nobody called it for its idle time."};
}

namespace {
constexpr std::array<std::string_view, 6> kStatuses{"ok",  "error",        "timeout",
                                                    "oom", "cap_exceeded", "provisioning"};
}  // namespace

std::string_view to_string(ExitStatus status) {
  return kStatuses.at(static_cast<std::size_t>(status));
}

std::optional<ExitStatus> parse_exit_status(std::string_view text) {
  const auto* const at = std::ranges::find(kStatuses, text);
  if (at == kStatuses.end()) return std::nullopt;
  return static_cast<ExitStatus>(at - kStatuses.begin());
}

}  // namespace firebreak::core
