#include "core/isolation.h"

#include <array>

namespace firebreak::core {

std::string_view to_string(Isolation isolation) {
  switch (isolation) {
    case Isolation::emulated:
      return "emulated";
    case Isolation::userspace_kernel:
      return "userspace-kernel";
    case Isolation::hardware:
      return "hardware";
  }
  return "emulated";
}

std::optional<Isolation> parse_isolation(std::string_view text) {
  for (const Isolation one :
       std::array{Isolation::emulated, Isolation::userspace_kernel, Isolation::hardware})
    if (to_string(one) == text) return one;
  return std::nullopt;
}

}  // namespace firebreak::core
