#include "ingress/limits.h"

#include <algorithm>

namespace firebreak::ingress {
namespace {

constexpr std::chrono::seconds kHolds{1};

Rate::Clock::duration worth(std::uint64_t count, std::uint64_t per_second) {
  return std::chrono::duration_cast<Rate::Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(count) / static_cast<double>(per_second)));
}

}  // namespace

EndpointLimits EndpointLimits::of_size(std::uint32_t memory_mib) {
  const std::uint32_t cpus = std::max(1U, memory_mib / 512);  // at peak
  return {.requests_at_once = 8 * cpus,
          .requests_per_second = 10 * cpus,
          .bytes_per_second = 1'000'000UL * cpus};
}

bool Rate::take(std::uint32_t per_second, Clock::time_point now) {
  if (per_second == 0) return true;
  const auto next = std::max(free_at_, now - kHolds) + worth(1, per_second);
  if (next > now) return false;
  free_at_ = next;
  return true;
}

Rate::Clock::duration Rate::pace(std::uint64_t bytes, std::uint64_t per_second,
                                 Clock::time_point now) {
  if (per_second == 0) return {};
  free_at_ = std::max(free_at_, now - kHolds) + worth(bytes, per_second);
  return std::max(Clock::duration::zero(), free_at_ - now);
}

}  // namespace firebreak::ingress
