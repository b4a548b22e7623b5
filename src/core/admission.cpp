#include "core/admission.h"

#include <algorithm>
#include <tuple>

namespace firebreak::core {

Shortage check_admission(const HostBudget& budget, const HostUse& use, std::uint64_t baseline_mib,
                         std::uint64_t baseline_millicpu) {
  if (use.baseline_mib + baseline_mib > budget.memory_mib * budget.overcommit) {
    return Shortage::promised_memory;
  }
  if (use.baseline_millicpu + baseline_millicpu >
      static_cast<std::uint64_t>(budget.millicpu) * budget.overcommit * 4) {
    return Shortage::promised_cpu;
  }
  if (use.resident_mib + kLaunchMib > budget.memory_mib) return Shortage::resident_memory;
  return Shortage::none;
}

std::string shortage_message(Shortage shortage, const HostBudget& budget, const HostUse& use) {
  auto of = [](std::uint64_t used, std::uint64_t all, std::string_view unit) {
    return std::to_string(used) + " of " + std::to_string(all) + " " + std::string(unit);
  };
  switch (shortage) {
    case Shortage::none:
      return "";
    case Shortage::resident_memory:
      return "the host has no memory left: " + of(use.resident_mib, budget.memory_mib, "MiB") +
             " in use; suspend or terminate microVMs";
    case Shortage::promised_memory:
      return "the host has promised all its memory: " +
             of(use.baseline_mib, budget.memory_mib * budget.overcommit, "MiB") +
             "; suspend or terminate microVMs, or raise overcommit";
    case Shortage::promised_cpu:
      return "the host has promised all its CPU: " + std::to_string(use.baseline_millicpu) +
             " millicpu; suspend or terminate microVMs, or raise overcommit";
  }
  return "";
}

std::vector<Reclaimable> choose_victims(std::vector<Reclaimable> candidates,
                                        std::uint64_t needed_mib) {
  std::ranges::sort(candidates, {},
                    [](const Reclaimable& r) { return std::tuple(r.kind, r.last_used, r.id); });
  std::uint64_t freed = 0;
  std::size_t count = 0;
  while (count < candidates.size() && freed < needed_mib) freed += candidates[count++].resident_mib;
  if (freed < needed_mib) return {};
  candidates.resize(count);
  return candidates;
}

}  // namespace firebreak::core
