#include "core/model.h"

#include <array>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace firebreak::core {

namespace {

template <class Enum, std::size_t N>
struct Names {
  std::array<std::pair<Enum, std::string_view>, N> rows;
  std::string_view name(Enum value) const {
    for (const auto& [key, text] : rows) {
      if (key == value) return text;
    }
    return "?";
  }
  std::optional<Enum> value(std::string_view text) const {
    for (const auto& [key, name] : rows) {
      if (name == text) return key;
    }
    return std::nullopt;
  }
};

constexpr Names<ImageState, 8> kImageStates{{{
    {ImageState::creating, "CREATING"},
    {ImageState::created, "CREATED"},
    {ImageState::create_failed, "CREATE_FAILED"},
    {ImageState::updating, "UPDATING"},
    {ImageState::updated, "UPDATED"},
    {ImageState::update_failed, "UPDATE_FAILED"},
    {ImageState::deleting, "DELETING"},
    {ImageState::delete_failed, "DELETE_FAILED"},
}}};

constexpr Names<VersionState, 6> kVersionStates{{{
    {VersionState::pending, "PENDING"},
    {VersionState::in_progress, "IN_PROGRESS"},
    {VersionState::successful, "SUCCESSFUL"},
    {VersionState::failed, "FAILED"},
    {VersionState::deleting, "DELETING"},
    {VersionState::delete_failed, "DELETE_FAILED"},
}}};

constexpr Names<BuildState, 4> kBuildStates{{{
    {BuildState::pending, "PENDING"},
    {BuildState::in_progress, "IN_PROGRESS"},
    {BuildState::successful, "SUCCESSFUL"},
    {BuildState::failed, "FAILED"},
}}};

}  // namespace

std::string_view to_string(ImageState state) {
  return kImageStates.name(state);
}
std::string_view to_string(VersionState state) {
  return kVersionStates.name(state);
}
std::string_view to_string(BuildState state) {
  return kBuildStates.name(state);
}
std::optional<ImageState> parse_image_state(std::string_view text) {
  return kImageStates.value(text);
}
std::optional<VersionState> parse_version_state(std::string_view text) {
  return kVersionStates.value(text);
}
std::optional<BuildState> parse_build_state(std::string_view text) {
  return kBuildStates.value(text);
}

std::string version_text(std::uint32_t number) {
  return std::to_string(number) + ".0";
}

std::optional<std::uint32_t> parse_version(std::string_view text) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  auto number = parse_u64(text);
  if (!number || *number == 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

SnapshotRef snapshot_of(const ImageVersion& version) {
  return {.engine = version.engine, .name = version.snapshot};
}

bool runnable(const ImageVersion& version) {
  return version.state == VersionState::successful && version.active;
}

namespace {

bool config_flag(const ImageVersion& version, std::string_view name) {
  auto object = parse_json_object(version.config);
  if (!object) return false;
  return JsonReader(*object).boolean_or(name, false);
}

}  // namespace

bool has_application(const ImageVersion& version) {
  return config_flag(version, "application");
}

bool app_is_pid1(const ImageVersion& version) {
  return config_flag(version, "applicationIsPid1");
}

std::string app_config(bool has_app, bool is_pid1) {
  return json::serialize(
      json::object{{"application", has_app}, {"applicationIsPid1", has_app && is_pid1}});
}

Result<> check_environment(const Environment& env) {
  if (env.size() > kMaxEnvironment)
    return fail(Code::invalid, "env may have at most 64 entries", Repair{"leave some out"});
  std::size_t bytes = 0;
  for (const auto& [name, value] : env) {
    if (name.empty() || name.contains('=') || name.contains('\0') || value.contains('\0'))
      return fail(Code::invalid, "env has a name or a value that cannot be in an environment",
                  Repair{"names are not empty "
                         "and without '=', and neither has a zero byte"});
    bytes += name.size() + value.size();
  }
  if (bytes > kMaxEnvironmentBytes)
    return fail(Code::invalid, "env may have at most 32 KiB",
                Repair{"pass larger things as files"});
  return {};
}

Aging aging_of(const Microvm& microvm) {
  return {.state = microvm.state,
          .idle = microvm.idle,
          .max_duration = microvm.max_duration,
          .started = microvm.started,
          .state_since = microvm.state_since,
          .suspended_at = microvm.suspended_at.value_or(microvm.state_since)};
}

Result<> enter(Microvm& microvm, MicrovmState state, Time at) {
  if (!allowed(microvm.state, state)) {
    return fail(Code::conflict, "microVM " + microvm.id.str() + " is " +
                                    std::string(to_string(microvm.state)) + " and cannot become " +
                                    std::string(to_string(state)));
  }
  microvm.state = state;
  microvm.state_since = at;
  if (state == MicrovmState::suspended) microvm.suspended_at = at;
  if (state == MicrovmState::running) microvm.suspended_at.reset();
  if (state == MicrovmState::terminated) {
    microvm.terminated = at;
    microvm.env.clear();
  }
  return {};
}

}  // namespace firebreak::core
