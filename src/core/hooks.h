// Lifecycle hooks of an image version: HTTP calls to the application at moments of a microVM's
// life. Values and their limits; pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/clock.h"

namespace firebreak::core {

enum class Hook { ready, validate, run, resume, suspend, terminate };
inline constexpr std::array kHooks{Hook::ready,  Hook::validate, Hook::run,
                                   Hook::resume, Hook::suspend,  Hook::terminate};

std::string_view to_string(Hook hook);  // "run"
std::string hook_path(Hook hook);       // "/aws/lambda-microvms/runtime/v1/run"
constexpr bool is_build_hook(Hook hook) {
  return hook == Hook::ready || hook == Hook::validate;
}

struct HookSetting {
  bool enabled = false;
  Seconds timeout{0};  // 0: the default of the kind
  friend bool operator==(const HookSetting&, const HookSetting&) = default;
};

struct Hooks {
  std::uint16_t port = 0;
  std::array<HookSetting, kHooks.size()> settings{};

  HookSetting& operator[](Hook hook) { return settings[static_cast<std::size_t>(hook)]; }
  const HookSetting& operator[](Hook hook) const {
    return settings[static_cast<std::size_t>(hook)];
  }
  bool any() const;
  // Defaults filled in: 30 s for build hooks, 1 s for the others.
  Seconds timeout(Hook hook) const;
  friend bool operator==(const Hooks&, const Hooks&) = default;
};

// A port when any hook is enabled; 1..3600 s for build hooks, 1..60 s for the others.
Result<> check(const Hooks& hooks);

inline constexpr std::size_t kMaxRunPayload = 4096;

// {"port":9000,"run":{"enabled":true,"timeout":1},...}: how a version's hooks are stored.
std::string to_json(const Hooks& hooks);
Result<Hooks> hooks_from_json(std::string_view text);

// Body of the run hook: {"microvmId":...,"runHookPayload":...}.
std::string run_hook_body(std::string_view microvm_id, std::string_view payload);
// "Run lifecycle hook returned HTTP status 500."
std::string hook_status_reason(Hook hook, int status);
// "Run lifecycle hook invocation timed out after PT1S."
std::string hook_timeout_reason(Hook hook, Seconds timeout);
// "Run lifecycle hook could not be called: ..."
std::string hook_failure_reason(Hook hook, std::string_view why);

}  // namespace firebreak::core
