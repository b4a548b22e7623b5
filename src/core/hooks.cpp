#include "core/hooks.h"

#include <algorithm>

#include "base/json.h"

namespace firebreak::core {

namespace {

std::string title(Hook hook) {
  std::string name(to_string(hook));
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::string iso_duration(Seconds seconds) {
  auto s = seconds.count();
  std::string out = "PT";
  if (s >= 3600) out += std::to_string(s / 3600) + "H";
  if (s % 3600 >= 60) out += std::to_string(s % 3600 / 60) + "M";
  if (s % 60 != 0 || s == 0) out += std::to_string(s % 60) + "S";
  return out;
}

}  // namespace

std::string_view to_string(Hook hook) {
  switch (hook) {
    case Hook::ready:
      return "ready";
    case Hook::validate:
      return "validate";
    case Hook::run:
      return "run";
    case Hook::resume:
      return "resume";
    case Hook::suspend:
      return "suspend";
    case Hook::terminate:
      return "terminate";
  }
  return "?";
}

std::string hook_path(Hook hook) {
  return "/aws/lambda-microvms/runtime/v1/" + std::string(to_string(hook));
}

bool Hooks::any() const {
  return std::ranges::any_of(settings, [](const HookSetting& s) { return s.enabled; });
}

Seconds Hooks::timeout(Hook hook) const {
  Seconds set = (*this)[hook].timeout;
  if (set.count() > 0) return set;
  return is_build_hook(hook) ? Seconds(30) : Seconds(1);
}

Result<> check(const Hooks& hooks) {
  if (hooks.any() && hooks.port == 0) {
    return fail(Code::invalid, "hooks need a port (1 to 65535) as soon as one of them is enabled");
  }
  for (Hook hook : kHooks) {
    const auto longest = is_build_hook(hook) ? 3600 : 60;
    const auto seconds = hooks[hook].timeout.count();
    if (seconds < 0 || seconds > longest) {
      return fail(Code::invalid, std::string(to_string(hook)) + " hook: a timeout is 1 to " +
                                     std::to_string(longest) + " seconds");
    }
  }
  return {};
}

std::string to_json(const Hooks& hooks) {
  json::object out{{"port", hooks.port}};
  for (Hook hook : kHooks) {
    const HookSetting& setting = hooks[hook];
    if (setting == HookSetting{}) continue;
    out[to_string(hook)] = {{"enabled", setting.enabled}, {"timeout", setting.timeout.count()}};
  }
  return json::serialize(out);
}

Result<Hooks> hooks_from_json(std::string_view text) {
  FB_TRY_ASSIGN(json::object object, parse_json_object(text));
  JsonReader reader(object);
  Hooks hooks;
  std::uint64_t port = reader.u64_or("port", 0);
  if (port > 65535) reader.reject("port", "must be at most 65535");
  hooks.port = static_cast<std::uint16_t>(port);
  for (Hook hook : kHooks) {
    const json::object* setting = reader.object(to_string(hook), false);
    if (setting == nullptr) continue;
    JsonReader inner(*setting, std::string(to_string(hook)));
    hooks[hook].enabled = inner.boolean_or("enabled", false);
    std::uint64_t timeout = inner.u64_or("timeout", 0);
    if (timeout > 3600) inner.reject("timeout", "must be at most 3600");
    hooks[hook].timeout = Seconds(timeout);
    FB_TRY(inner.result());
  }
  FB_TRY(reader.result());
  FB_TRY(check(hooks));
  return hooks;
}

std::string run_hook_body(std::string_view microvm_id, std::string_view payload) {
  json::object body{{"microvmId", microvm_id}};
  if (!payload.empty()) body["runHookPayload"] = payload;
  return json::serialize(body);
}

std::string hook_status_reason(Hook hook, int status) {
  return title(hook) + " lifecycle hook returned HTTP status " + std::to_string(status) + ".";
}

std::string hook_timeout_reason(Hook hook, Seconds timeout) {
  return title(hook) + " lifecycle hook invocation timed out after " + iso_duration(timeout) + ".";
}

std::string hook_failure_reason(Hook hook, std::string_view why) {
  return title(hook) + " lifecycle hook could not be called: " + std::string(why) + ".";
}

}  // namespace firebreak::core
