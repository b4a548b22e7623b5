// What one tenant may use, and the arithmetic of counting it. Pure; the owner serialises calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/caps.h"
#include "core/clock.h"

namespace firebreak::core {

struct TenantLimits {
  std::uint32_t microvms = 200;        // running and suspended
  std::uint64_t memory_mib = 409'600;  // sum of baselines of running and suspended
  std::uint32_t images = 100;
  std::uint32_t versions_per_image = 50;
  std::uint32_t launches_per_second = 100;
  Caps caps{};
  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

std::string to_json(const TenantLimits& limits);
// Members that are absent stay as in `limits`; null takes a cap away.
Result<TenantLimits> limits_from_json(std::string_view text, TenantLimits limits = {});

struct TenantUse {
  std::uint32_t microvms = 0;
  std::uint64_t memory_mib = 0;
  std::uint32_t images = 0;
};

// A refusal that says what ran out and when it comes back (nothing: when something is given up).
struct LimitRefusal {
  std::string limit;  // "microvms", "memory_mib", "images", "launches_per_second", ...
  std::uint64_t allowed = 0;
  std::uint64_t used = 0;
  std::optional<Time> resets_at;
  // Code::exhausted with the reason limit_reached; its data name the limit.
  Error error() const;
};

// The error of a limit, which its data name.
Error limit_reached(const std::string& limit, std::uint64_t allowed, std::uint64_t used,
                    std::string message, Repair repair);

// nullopt: one more microVM of that size fits.
std::optional<LimitRefusal> check_launch(const TenantLimits& limits, const TenantUse& use,
                                         std::uint64_t memory_mib);

// So many per second, with a burst of as many.
class TokenBucket {
 public:
  explicit TokenBucket(std::uint32_t per_second) : rate_(per_second), tokens_(per_second) {}
  // nullopt: taken. Otherwise when the next one will be there.
  std::optional<Time> take(Time now);
  // A higher rate counts at once.
  void set_rate(std::uint32_t per_second) {
    if (per_second > rate_) tokens_ += per_second - rate_;
    rate_ = per_second;
  }
  std::uint32_t rate() const { return rate_; }

 private:
  std::uint32_t rate_;
  double tokens_;
  std::optional<Time> last_;
};

}  // namespace firebreak::core
