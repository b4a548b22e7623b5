#include "core/limits.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace firebreak::core {

std::string to_json(const TenantLimits& limits) {
  return json::serialize(json::object{{"microvms", limits.microvms},
                                      {"memoryMib", limits.memory_mib},
                                      {"images", limits.images},
                                      {"versionsPerImage", limits.versions_per_image},
                                      {"launchesPerSecond", limits.launches_per_second}});
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
  FB_TRY(reader.result());
  return limits;
}

std::string LimitRefusal::message() const {
  std::string text = "limit " + limit + " reached: " + std::to_string(used) + " of " +
                     std::to_string(allowed) + " used; ";
  return text + (resets_at ? "try again shortly"
                           : "terminate microVMs you do not need, or ask for a higher limit");
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
