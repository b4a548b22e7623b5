#include "api/lambda/lambda_json.h"

#include <array>
#include <map>

#include "api/aws/aws_call.h"

namespace firebreak::api::lambda {
namespace {

using core::Hook;

void put_canonical(const json::value& value, std::string& out) {
  if (const json::object* object = value.if_object()) {
    std::map<std::string, const json::value*> sorted;
    for (const auto& member : *object) sorted[std::string(member.key())] = &member.value();
    out += '{';
    for (const auto& [name, member] : sorted) {
      out += json::serialize(json::value(name)) + ":";
      put_canonical(*member, out);
      out += ',';
    }
    out += '}';
  } else if (const json::array* array = value.if_array()) {
    out += '[';
    for (const json::value& element : *array) {
      put_canonical(element, out);
      out += ',';
    }
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

constexpr std::array kImageHooks{Hook::ready, Hook::validate};
constexpr std::array kMicrovmHooks{Hook::run, Hook::resume, Hook::suspend, Hook::terminate};

void read_group(const json::object& hooks, std::string_view group, std::span<const Hook> names,
                core::Hooks& out) {
  const json::value* found = hooks.if_contains(group);
  if (found == nullptr || found->is_null()) return;
  const json::object& settings = found->as_object();
  for (const Hook hook : names) {
    const std::string name(to_string(hook));
    if (const json::value* state = settings.if_contains(name);
        state != nullptr && state->is_string())
      out[hook].enabled = state->as_string() == "ENABLED";
    if (const json::value* timeout = settings.if_contains(name + "TimeoutInSeconds");
        timeout != nullptr && timeout->is_int64())
      out[hook].timeout = core::Seconds(timeout->as_int64());
  }
}

json::object group_json(std::span<const Hook> names, const core::Hooks& hooks) {
  json::object out;
  for (const Hook hook : names) {
    const std::string name(to_string(hook));
    out[name] = hooks[hook].enabled ? "ENABLED" : "DISABLED";
    if (hooks[hook].enabled) out[name + "TimeoutInSeconds"] = hooks.timeout(hook).count();
  }
  return out;
}

}  // namespace

json::object kept(const std::string& config) {
  auto parsed = parse_json_object(config.empty() ? "{}" : config);
  if (!parsed) return {};
  const json::value* found = parsed->if_contains("lambda");
  return found != nullptr && found->is_object() ? found->as_object() : json::object();
}

std::optional<bool> kept_managed(const core::Microvm& microvm) {
  const json::object known = kept(microvm.config);
  const json::value* managed = known.if_contains("managedImage");
  if (managed == nullptr || !managed->is_bool()) return std::nullopt;
  return managed->as_bool();
}

std::string canonical_json(const json::object& input) {
  json::object copy = input;
  copy.erase("clientToken");
  std::string out;
  put_canonical(copy, out);
  return out;
}

Result<core::Hooks> read_hooks(const json::object& hooks) {
  core::Hooks out;
  if (const json::value* port = hooks.if_contains("port"); port != nullptr && port->is_int64())
    out.port = static_cast<std::uint16_t>(port->as_int64());
  read_group(hooks, "microvmImageHooks", kImageHooks, out);
  read_group(hooks, "microvmHooks", kMicrovmHooks, out);
  FB_TRY(core::check(out));
  return out;
}

json::object hooks_json(const core::Hooks& hooks) {
  return {{"port", hooks.port},
          {"microvmImageHooks", group_json(kImageHooks, hooks)},
          {"microvmHooks", group_json(kMicrovmHooks, hooks)}};
}

json::object idle_json(const core::IdlePolicy& policy) {
  return {{"maxIdleDurationSeconds", policy.max_idle.count()},
          {"suspendedDurationSeconds", policy.suspended.count()},
          {"autoResumeEnabled", policy.auto_resume}};
}

json::object image_json(const ArnScope& place, const core::Image& image,
                        const std::vector<core::ImageVersion>& versions) {
  json::object out{{"imageArn", image_arn(place, image)},
                   {"name", image.name},
                   {"state", to_string(image.state)},
                   {"createdAt", epoch_seconds(image.created)}};
  for (const core::ImageVersion& version : versions) {
    if (core::runnable(version))
      out["latestActiveImageVersion"] = core::version_text(version.number);
    if (version.state == core::VersionState::failed)
      out["latestFailedImageVersion"] = core::version_text(version.number);
  }
  return out;
}

json::object version_json(const ArnScope& place, const core::Image& image,
                          const core::ImageVersion& version) {
  json::object out = kept(version.config);
  out.erase("clientToken");
  out.erase("requestHash");
  // An image made through another API was not told these, and the model requires them.
  out.emplace("baseImageArn", image_arn(place, kManagedAccount, base_images().back().name));
  out.emplace("buildRoleArn", "arn:aws:iam::" + place.account + ":role/firebreak-build");
  out.emplace("codeArtifact", json::object{{"uri", "firebreak:" + image.name}});
  out["imageArn"] = image_arn(place, image);
  out["imageVersion"] = core::version_text(version.number);
  out["state"] = to_string(version.state);
  out["status"] = version.active ? "ACTIVE" : "INACTIVE";
  out["createdAt"] = epoch_seconds(version.created);
  out["resources"] = json::array{json::object{{"minimumMemoryInMiB", version.memory_mib}}};
  if (version.hooks.any() || version.hooks.port != 0) out["hooks"] = hooks_json(version.hooks);
  if (!version.env.empty()) {
    json::object variables;
    for (const auto& [name, value] : version.env) variables[name] = value;
    out["environmentVariables"] = std::move(variables);
  }
  if (version.updated) out["updatedAt"] = epoch_seconds(*version.updated);
  if (!version.state_reason.empty()) out["stateReason"] = version.state_reason;
  return out;
}

json::object build_json(const ArnScope& place, const core::Image& image, const core::Build& build) {
  json::object out{{"imageArn", image_arn(place, image)},
                   {"imageVersion", core::version_text(build.version)},
                   {"buildId", build.id.str()},
                   {"buildState", to_string(build.state)},
                   {"architecture", kArchitecture},
                   {"chipset", kChipset},
                   {"chipsetGeneration", kChipsetGeneration},
                   {"createdAt", epoch_seconds(build.created)}};
  if (!build.state_reason.empty()) out["stateReason"] = build.state_reason;
  return out;
}

}  // namespace firebreak::api::lambda
