// Whether one more microVM fits on this host, and what to give up to make it fit. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::core {

struct HostBudget {
  std::uint64_t memory_mib = 0;  // for Firebreak: total minus the reserve
  std::uint32_t millicpu = 0;    // all CPUs of the host
  std::uint32_t overcommit = 4;  // sum of baselines may be so many times the host
  friend bool operator==(const HostBudget&, const HostBudget&) = default;
};

struct HostUse {
  std::uint64_t resident_mib = 0;  // really used: bases + private memory of running and parked
  std::uint64_t baseline_mib = 0;  // promised to running microVMs
  std::uint64_t baseline_millicpu = 0;

  HostUse& operator+=(const HostUse& more) {
    resident_mib += more.resident_mib;
    baseline_mib += more.baseline_mib;
    baseline_millicpu += more.baseline_millicpu;
    return *this;
  }
  HostUse& operator-=(const HostUse& less) {
    resident_mib -= less.resident_mib;
    baseline_mib -= less.baseline_mib;
    baseline_millicpu -= less.baseline_millicpu;
    return *this;
  }
};

// What one more microVM is expected to need at once; it grows later.
inline constexpr std::uint64_t kLaunchMib = 96;

enum class Shortage { none, resident_memory, promised_memory, promised_cpu };

Shortage check_admission(const HostBudget& budget, const HostUse& use, std::uint64_t baseline_mib,
                         std::uint64_t baseline_millicpu);
Error shortage_error(Shortage shortage, const HostBudget& budget, const HostUse& use);

// What can be given up, in the order it is: parked clones, bases nobody uses, then microVMs.
struct Reclaimable {
  enum class Kind { parked, base, microvm };
  Kind kind;
  std::string id;
  Time last_used{};
  std::uint64_t resident_mib = 0;
  std::string tenant{};  // of a microVM
  bool working = false;  // somebody waits for it
  bool stays = false;    // counted as its tenant's, but never given up
};
// The candidates to give up, in order, until `needed_mib` is reached; empty when even all of them
// are not enough. Among microVMs: the one longest without activity, of the tenant that holds most.
// For a launch of `requester`, another tenant gives a microVM up only while it holds more than the
// requester would, and never a microVM that works.
std::vector<Reclaimable> choose_victims(std::vector<Reclaimable> candidates,
                                        std::uint64_t needed_mib, const std::string& requester);

}  // namespace firebreak::core
