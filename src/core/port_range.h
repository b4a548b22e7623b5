// Ports from the first to the last, both included. Value.
#pragma once

#include <compare>
#include <cstdint>

namespace firebreak::core {

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  friend auto operator<=>(const PortRange&, const PortRange&) = default;
};

}  // namespace firebreak::core
