#include "api/native/microvm_json.h"

#include <algorithm>

#include "wire/crypto.h"

namespace firebreak::api {
namespace {

json::value optional_time(const std::optional<core::Time>& time) {
  return time ? json::value(core::to_unix_ms(*time)) : json::value(nullptr);
}

}  // namespace

json::object to_json(const core::IdlePolicy& policy) {
  return {{"maxIdleSeconds", policy.max_idle.count()},
          {"suspendedSeconds", policy.suspended.count()},
          {"autoResume", policy.auto_resume},
          {"rule", to_string(policy.rule)}};
}

json::object to_json(const core::Microvm& m, const ingress::EndpointAddress& endpoints) {
  json::object tags;
  for (const auto& [key, value] : m.tags) tags[key] = value;
  json::object object{
      {"id", m.id.str()},
      {"state", to_string(m.state)},
      {"image", m.image_name},
      {"imageVersion", core::version_text(m.image_version)},
      {"memoryMib", m.memory_mib},
      {"engine", m.engine},
      {"isolation", core::to_string(m.isolation)},
      {"endpoint", endpoints.of(m.endpoint)},
      {"endpointId", m.endpoint.str()},
      {"egress", m.egress},
      {"startedAt", core::to_unix_ms(m.started)},
      {"stateSince", core::to_unix_ms(m.state_since)},
      {"suspendedAt", optional_time(m.suspended_at)},
      {"terminatedAt", optional_time(m.terminated)},
      {"idle", m.idle ? json::value(to_json(*m.idle)) : json::value(nullptr)},
      {"maxDurationSeconds",
       m.max_duration ? json::value(m.max_duration->count()) : json::value(nullptr)},
      {"tags", std::move(tags)},
  };
  if (!m.state_reason.empty()) object["stateReason"] = m.state_reason;
  if (!m.parent.empty()) object["parent"] = m.parent.str();
  if (!m.role.empty()) object["role"] = m.role;
  if (!m.name.empty()) object["name"] = m.name;
  return object;
}

json::object to_json(const core::Usage& usage) {
  constexpr double kGbSecond = 1024.0 * 1000;
  return {{"runningSeconds", static_cast<double>(usage.running_ms) / 1000},
          {"cpuSeconds", static_cast<double>(usage.cpu_usec) / 1e6},
          {"cpuSecondsAboveBaseline", static_cast<double>(usage.cpu_over_usec) / 1e6},
          {"memoryGbSeconds", static_cast<double>(usage.memory_mib_ms) / kGbSecond},
          {"suspendedGbHours", static_cast<double>(usage.suspended_mib_ms) / kGbSecond / 3600},
          {"snapshotReadBytes", usage.snapshot_read_bytes},
          {"snapshotWrittenBytes", usage.snapshot_written_bytes},
          {"bytesIn", usage.bytes_in},
          {"bytesOut", usage.bytes_out}};
}

json::object to_json(const core::Event& event) {
  json::object object{{"sequence", event.sequence},
                      {"at", core::to_unix_ms(event.at)},
                      {"microvm", event.microvm.str()},
                      {"from", to_string(event.from)},
                      {"to", to_string(event.to)}};
  if (!event.reason.empty()) object["reason"] = event.reason;
  return object;
}

Result<core::IdlePolicy> parse_idle(const json::object& object, std::string path) {
  JsonReader reader(object, std::move(path));
  core::IdlePolicy policy;
  constexpr std::uint64_t kMost = 366UL * 24 * 3600;
  policy.max_idle = core::Seconds(std::min(reader.u64("maxIdleSeconds"), kMost));
  policy.suspended = core::Seconds(std::min(reader.u64_or("suspendedSeconds", 24UL * 3600), kMost));
  policy.auto_resume = reader.boolean_or("autoResume", true);
  policy.rule =
      core::parse_idle_rule(reader.string_or("rule", "work")).value_or(core::IdleRule::work);
  FB_TRY(reader.result());
  FB_TRY(core::check(policy));
  return policy;
}

Result<core::Hooks> parse_hooks(const json::object& object) {
  return core::hooks_from_json(json::serialize(object));
}

Result<control::LaunchRequest> parse_launch(const json::object& body) {
  JsonReader reader(body);
  control::LaunchRequest request;
  request.image = reader.string("image");
  std::string version = reader.string_or("version", "");
  // NAME:VERSION says the same in one word; names have no colon.
  if (const auto colon = request.image.find(':'); version.empty() && colon != std::string::npos) {
    version = request.image.substr(colon + 1);
    request.image.resize(colon);
  }
  if (!version.empty()) {
    request.version = core::parse_version(version);
    if (!request.version) reader.reject("version", "must be like \"1.0\"");
  }
  if (reader.has("maxDurationSeconds"))
    request.max_duration = core::Seconds(reader.u64("maxDurationSeconds"));
  request.payload = reader.string_or("payload", "");
  request.tags = reader.string_map_or_empty("tags");
  if (request.tags.size() > 50) reader.reject("tags", "may have at most 50 entries");
  for (const auto& [key, value] : request.tags) {
    if (key.empty() || key.size() > 128 || value.size() > 256)
      reader.reject("tags", "have keys of 1 to 128 and values of at most 256 bytes");
  }
  if (reader.has("egress")) request.egress = reader.string("egress");
  request.role = reader.string_or("role", "");
  request.name = reader.string_or("name", "");
  request.env = reader.string_map_or_empty("env");
  request.client_token = reader.string_or("clientToken", "");
  if (request.client_token.size() > 128) reader.reject("clientToken", "has at most 128 bytes");
  const json::object* idle = reader.object("idle", false);
  FB_TRY(reader.result());
  if (body.contains("name")) FB_TRY(core::check_microvm_name(request.name));
  FB_TRY(core::check_environment(request.env));
  if (idle != nullptr) {
    FB_TRY_ASSIGN(request.idle, parse_idle(*idle, "idle."));
  }
  request.request_hash = wire::sha256_hex(json::serialize(body));
  return request;
}

}  // namespace firebreak::api
