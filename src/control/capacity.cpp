#include "control/capacity.h"

#include <algorithm>

namespace firebreak::control {
core::HostUse Capacity::use() const {
  core::HostUse use = builds_;
  use += promised_;
  use += needs_.live.use();
  for (const auto& parked : needs_.pool.parked()) use.resident_mib += to_mib(parked.resident_bytes);
  for (const auto& base : needs_.catalogue.loaded()) use.resident_mib += to_mib(base.ram_bytes);
  return use;
}

bool Capacity::has_room() const {
  return use().resident_mib + 2 * core::kLaunchMib <= needs_.options.budget.memory_mib;
}

std::vector<core::Reclaimable> Capacity::candidates() const {
  using Kind = core::Reclaimable::Kind;
  std::vector<core::Reclaimable> list;
  for (const auto& parked : needs_.pool.parked())
    list.push_back({Kind::parked, parked.id, parked.since, to_mib(parked.resident_bytes), {}});
  for (const auto& base : needs_.catalogue.loaded()) {
    if (base.in_use) continue;
    list.push_back({Kind::base, base.snapshot.name, base.last_used, to_mib(base.ram_bytes), {}});
  }
  if (!needs_.options.suspend_under_pressure) return list;
  for (const LivePtr& vm : needs_.live.all()) {
    if (vm->state() != core::MicrovmState::running || !vm->machine()) continue;
    const auto engine = needs_.engines.get(vm->record().engine);
    if (!engine || !(*engine)->features().contains(machine::Feature::suspend)) continue;
    // One that works is the last to go.
    const bool works = vm->used.activity.open_work > 0;
    const core::Time used =
        works ? needs_.clock.now()
              : std::max(vm->used.activity.last_traffic, vm->used.activity.last_cpu);
    list.push_back({.kind = Kind::microvm,
                    .id = vm->record().id.str(),
                    .last_used = used,
                    .resident_mib = std::max(core::kLaunchMib, to_mib(vm->used.memory_bytes)),
                    .tenant = vm->record().tenant.str(),
                    .working = works,
                    .stays = !core::comes_back(vm->record().idle)});
  }
  return list;
}

net::Task<void> Capacity::give_up(std::vector<core::Reclaimable> victims) {
  using Kind = core::Reclaimable::Kind;
  for (const core::Reclaimable& victim : victims) {
    needs_.metrics.add("firebreak_reclaimed_total",
                       obs::label("kind", victim.kind == Kind::parked ? "parked"
                                          : victim.kind == Kind::base ? "base"
                                                                      : "microvm"));
    if (victim.kind == Kind::parked) {
      co_await needs_.pool.evict(victim.id);
    } else if (victim.kind == Kind::base) {
      for (const auto& base : needs_.catalogue.loaded())
        if (base.snapshot.name == victim.id) co_await needs_.catalogue.release(base.snapshot);
    } else if (LivePtr vm = needs_.live.find(core::MicrovmId(victim.id))) {
      (void)co_await needs_.suspending.suspend(vm, "Suspended because the host needs memory.",
                                               Deadline::in(std::chrono::seconds(60)));
    }
  }
}

// What to give up so that one more fits; empty when nothing helps.
std::vector<core::Reclaimable> Capacity::victims_for(core::Shortage shortage,
                                                     const core::HostUse& now,
                                                     const core::TenantId& tenant) const {
  if (shortage == core::Shortage::resident_memory) {
    const std::uint64_t limit = needs_.options.budget.memory_mib;
    return core::choose_victims(candidates(), now.resident_mib + core::kLaunchMib - limit,
                                tenant.str());
  }
  // A promise is taken back only by suspending.
  std::vector<core::Reclaimable> running = candidates();
  std::erase_if(running, [](const core::Reclaimable& r) {
    return r.kind != core::Reclaimable::Kind::microvm;
  });
  return core::choose_victims(std::move(running), 1, tenant.str());
}

net::Task<Result<Room>> Capacity::admit(const core::TenantId& tenant, const core::SizeClass& size,
                                        Deadline deadline) {
  constexpr int kAttempts = 32;  // each gives up at least one thing
  for (int attempt = 0; attempt < kAttempts && !deadline.passed(); ++attempt) {
    const core::HostUse now = use();
    const core::Shortage shortage =
        core::check_admission(needs_.options.budget, now, size.memory_mib, size.baseline_millicpu);
    if (shortage == core::Shortage::none) {
      co_return Room(promised_, {.resident_mib = core::kLaunchMib,
                                 .baseline_mib = size.memory_mib,
                                 .baseline_millicpu = size.baseline_millicpu});
    }
    needs_.pool.pause(std::chrono::seconds(10));
    std::vector<core::Reclaimable> victims = victims_for(shortage, now, tenant);
    if (victims.empty()) {
      co_return std::unexpected(core::shortage_error(shortage, needs_.options.budget, now));
    }
    co_await give_up(std::move(victims));
  }
  co_return fail(Code::unavailable, Reason{"host_full"}, "the host has no room left",
                 Repair{"try again shortly"});
}

net::Task<void> Capacity::relieve() {
  const core::HostUse now = use();
  if (now.resident_mib <= needs_.options.budget.memory_mib) co_return;
  needs_.pool.pause(std::chrono::seconds(10));
  const std::uint64_t excess = now.resident_mib - needs_.options.budget.memory_mib;
  auto victims = core::choose_victims(candidates(), excess, {});
  if (!victims.empty()) co_await give_up(std::move(victims));
}

}  // namespace firebreak::control
