// The five sizes of a microVM: what is guaranteed (baseline) and what the guest sees (peak).
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"

namespace firebreak::core {

struct SizeClass {
  std::uint32_t memory_mib;       // baseline; the name of the size
  std::uint32_t peak_memory_mib;  // what the guest sees
  std::uint32_t baseline_millicpu;
  std::uint32_t peak_vcpus;
  std::uint32_t disk_gib;
  friend bool operator==(const SizeClass&, const SizeClass&) = default;
};

inline constexpr std::array<SizeClass, 5> kSizes{{
    {.memory_mib = 512,
     .peak_memory_mib = 2048,
     .baseline_millicpu = 250,
     .peak_vcpus = 1,
     .disk_gib = 8},
    {.memory_mib = 1024,
     .peak_memory_mib = 4096,
     .baseline_millicpu = 500,
     .peak_vcpus = 2,
     .disk_gib = 8},
    {.memory_mib = 2048,
     .peak_memory_mib = 8192,
     .baseline_millicpu = 1000,
     .peak_vcpus = 4,
     .disk_gib = 8},
    {.memory_mib = 4096,
     .peak_memory_mib = 16384,
     .baseline_millicpu = 2000,
     .peak_vcpus = 8,
     .disk_gib = 16},
    {.memory_mib = 8192,
     .peak_memory_mib = 32768,
     .baseline_millicpu = 4000,
     .peak_vcpus = 16,
     .disk_gib = 32},
}};
inline constexpr std::uint32_t kDefaultMemoryMib = 2048;

// Code::invalid names the five sizes.
Result<SizeClass> size_for(std::uint64_t memory_mib);

}  // namespace firebreak::core
