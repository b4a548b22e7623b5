#include "core/limits.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace firebreak::core {
namespace {
constexpr std::uint64_t kMostCap = 1'000'000'000;
}

std::string to_json(const TenantLimits& limits) {
  json::object object{{"microvms", limits.microvms},
                      {"memoryMib", limits.memory_mib},
                      {"images", limits.images},
                      {"versionsPerImage", limits.versions_per_image},
                      {"launchesPerSecond", limits.launches_per_second}};
  for (const CapRule& rule : cap_rules()) {
    const auto& cap = limits.caps[rule.dimension];
    object[rule.name] = cap ? json::value(*cap) : json::value(nullptr);
  }
  return json::serialize(object);
}

Result<TenantLimits> limits_from_json(std::string_view text, TenantLimits limits) {
  FB_TRY_ASSIGN(json::object object, parse_json_object(text));
  JsonReader reader(object);
  auto small = [&reader](std::string_view name, std::uint32_t fallback) {
    std::uint64_t value = reader.u64_or(name, fallback);
    if (value > 1'000'000) reader.reject(name, "must be at most 1000000");
    return static_cast<std::uint32_t>(value);
  };
  limits.microvms = small("microvms", limits.microvms);
  limits.memory_mib = reader.u64_or("memoryMib", limits.memory_mib);
  limits.images = small("images", limits.images);
  limits.versions_per_image = small("versionsPerImage", limits.versions_per_image);
  limits.launches_per_second = small("launchesPerSecond", limits.launches_per_second);
  for (const CapRule& rule : cap_rules()) {
    const json::value* value = object.if_contains(rule.name);
    if (value == nullptr) continue;
    auto& cap = limits.caps[rule.dimension];
    cap = value->is_null() ? std::nullopt : std::optional(reader.u64(rule.name));
    if (cap && *cap > kMostCap) reader.reject(rule.name, "must be at most 1000000000, or null");
  }
  FB_TRY(reader.result());
  return limits;
}

Error limit_reached(const std::string& limit, std::uint64_t allowed, std::uint64_t used,
                    std::string message, Repair repair) {
  Error error =
      fail(Code::exhausted, Reason{"limit_reached"}, std::move(message), std::move(repair)).error();
  error.data = {
      {"limit", limit}, {"allowed", std::to_string(allowed)}, {"used", std::to_string(used)}};
  return error;
}

Error LimitRefusal::error() const {
  Error error = limit_reached(
      limit, allowed, used,
      "limit " + limit + " reached: " + std::to_string(used) + " of " + std::to_string(allowed) +
          " used",
      Repair{resets_at ? "try again shortly"
                       : "terminate microVMs you do not need, or ask for a higher limit"});
  if (resets_at) error.resets_at_ms = to_unix_ms(*resets_at);
  return error;
}

std::optional<LimitRefusal> check_launch(const TenantLimits& limits, const TenantUse& use,
                                         std::uint64_t memory_mib) {
  if (use.microvms + 1 > limits.microvms) {
    return LimitRefusal{"microvms", limits.microvms, use.microvms, std::nullopt};
  }
  if (use.memory_mib + memory_mib > limits.memory_mib) {
    return LimitRefusal{"memory_mib", limits.memory_mib, use.memory_mib, std::nullopt};
  }
  return std::nullopt;
}

std::optional<Time> TokenBucket::take(Time now) {
  if (rate_ == 0) return now + std::chrono::hours(24);
  if (last_ && now > *last_) {
    const double seconds = std::chrono::duration<double>(now - *last_).count();
    tokens_ = std::min<double>(rate_, tokens_ + seconds * rate_);
  }
  // A clock set back must not stop the refill for ever.
  last_ = now;
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return std::nullopt;
  }
  const double wait_ms = (1 - tokens_) / rate_ * 1000;
  return now + Millis(static_cast<std::int64_t>(std::ceil(wait_ms)));
}

}  // namespace firebreak::core
