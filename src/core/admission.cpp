#include "core/admission.h"

#include <map>
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

Error shortage_error(Shortage shortage, const HostBudget& budget, const HostUse& use) {
  auto of = [](std::uint64_t used, std::uint64_t all) {
    return std::to_string(used) + " of " + std::to_string(all) + " MiB";
  };
  const auto full = [](std::string what, std::string repair) {
    return fail(Code::unavailable, Reason{"host_full"}, std::move(what), {std::move(repair)})
        .error();
  };
  switch (shortage) {
    case Shortage::none:
      break;
    case Shortage::resident_memory:
      return full(
          "the host has no memory left: " + of(use.resident_mib, budget.memory_mib) + " in use",
          "suspend or terminate microVMs");
    case Shortage::promised_memory:
      return full("the host has promised all its memory: " +
                      of(use.baseline_mib, budget.memory_mib * budget.overcommit),
                  "suspend or terminate microVMs, or raise overcommit");
    case Shortage::promised_cpu:
      return full("the host has promised all its CPU: " + std::to_string(use.baseline_millicpu) +
                      " millicpu",
                  "suspend or terminate microVMs, or raise overcommit");
  }
  return full("the host has no room left", "try again shortly");
}

namespace {

// What running microVMs hold, by tenant; the one who asks counts as if it had got it.
using Shares = std::map<std::string, std::uint64_t>;

Shares shares_of(const std::vector<Reclaimable>& candidates, const std::string& requester) {
  Shares shares;
  for (const Reclaimable& one : candidates) {
    if (one.kind == Reclaimable::Kind::microvm) shares[one.tenant] += one.resident_mib;
  }
  if (!requester.empty()) shares[requester] += kLaunchMib;
  return shares;
}

bool may_take(const Reclaimable& one, const Shares& shares, const std::string& requester) {
  if (one.kind != Reclaimable::Kind::microvm) return true;
  if (one.stays) return false;
  if (requester.empty() || one.tenant == requester) return true;
  return !one.working && shares.at(one.tenant) > shares.at(requester);
}

}  // namespace

std::vector<Reclaimable> choose_victims(std::vector<Reclaimable> candidates,
                                        std::uint64_t needed_mib, const std::string& requester) {
  Shares shares = shares_of(candidates, requester);
  // The first is the next to go. A tenant that gave something may no longer hold most, so the
  // order is looked at anew each time.
  const auto rank = [&shares](const Reclaimable& one) {
    const bool microvm = one.kind == Reclaimable::Kind::microvm;
    const std::uint64_t held = microvm ? shares.at(one.tenant) : 0;
    return std::tuple(one.kind, ~held, one.last_used, one.id);
  };
  std::vector<Reclaimable> victims;
  std::uint64_t freed = 0;
  while (freed < needed_mib) {
    auto next = candidates.end();
    for (auto one = candidates.begin(); one != candidates.end(); ++one) {
      if (!may_take(*one, shares, requester)) continue;
      if (next == candidates.end() || rank(*one) < rank(*next)) next = one;
    }
    if (next == candidates.end()) return {};
    freed += next->resident_mib;
    if (next->kind == Reclaimable::Kind::microvm) shares[next->tenant] -= next->resident_mib;
    victims.push_back(std::move(*next));
    candidates.erase(next);
  }
  return victims;
}

}  // namespace firebreak::core
