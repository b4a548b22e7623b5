// How many parked clones of one image version to keep: enough for the burst recently seen, between
// bounds. Pure; the owner serialises calls.
#pragma once

#include <cstdint>
#include <deque>

#include "core/clock.h"

namespace firebreak::core {

struct PoolBounds {
  std::uint32_t least = 1;
  std::uint32_t most = 8;
};

class Demand {
 public:
  void launched(Time now);
  bool empty() const { return buckets_.empty(); }  // nobody launched lately
  // Launches of the busiest `kBurst` within the last `kMemory`, rounded up by one; at least
  // bounds.least, falling back to it when nobody launched for that long.
  std::uint32_t target(const PoolBounds& bounds, Time now);

  static constexpr Seconds kBurst{5};
  static constexpr Seconds kMemory{600};

 private:
  struct Bucket {
    Time start;
    std::uint32_t launches;
  };
  std::deque<Bucket> buckets_;  // of kBurst each, oldest first; at most kMemory / kBurst
};

}  // namespace firebreak::core
