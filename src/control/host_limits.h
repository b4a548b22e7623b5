// Limits of a machine's process for a size: weight by baseline, ceiling by peak. Pure; any thread.
#pragma once

#include <algorithm>

#include "core/size.h"
#include "machine/engine.h"

namespace firebreak::control {

inline machine::HostLimits host_limits(const core::SizeClass& size) {
  constexpr std::uint64_t kMib = 1024UL * 1024;
  constexpr std::uint64_t kProcessMib = 256;  // the process's own, beside the guest's
  return {.memory_bytes = (size.peak_memory_mib + kProcessMib) * kMib,
          .cpu_weight = std::max<std::uint32_t>(1, size.baseline_millicpu / 10),
          .cpu_percent = size.peak_vcpus * 100};
}

}  // namespace firebreak::control
