#include "core/size.h"

#include <string>

namespace firebreak::core {

Result<SizeClass> size_for(std::uint64_t memory_mib) {
  std::string known;
  for (const SizeClass& size : kSizes) {
    if (size.memory_mib == memory_mib) return size;
    known += (known.empty() ? "" : ", ") + std::to_string(size.memory_mib);
  }
  return fail(Code::invalid, "memory of " + std::to_string(memory_mib) + " MiB is not a size",
              Repair{"use one of " + known});
}

}  // namespace firebreak::core
