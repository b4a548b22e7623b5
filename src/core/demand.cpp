#include "core/demand.h"

#include <algorithm>

namespace firebreak::core {

void Demand::launched(Time now) {
  // Of a clock set back: buckets of the future would never be too old.
  if (!buckets_.empty() && now + kBurst < buckets_.back().start) buckets_.clear();
  if (buckets_.empty() || now >= buckets_.back().start + kBurst) buckets_.push_back({now, 0});
  ++buckets_.back().launches;
  while (buckets_.size() > static_cast<std::size_t>(kMemory / kBurst)) buckets_.pop_front();
}

std::uint32_t Demand::target(const PoolBounds& bounds, Time now) {
  while (!buckets_.empty() && buckets_.front().start + kMemory < now) buckets_.pop_front();
  std::uint32_t busiest = 0;
  for (const Bucket& bucket : buckets_) busiest = std::max(busiest, bucket.launches);
  const std::uint32_t wanted = busiest == 0 ? 0 : busiest + 1;
  return std::clamp(wanted, bounds.least, std::max(bounds.least, bounds.most));
}

}  // namespace firebreak::core
