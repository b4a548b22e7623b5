// What callers ask about time: why a microVM is awake, when what happens next, what it has used.
#include "control/supervisor.h"

namespace firebreak::control {
namespace {
constexpr core::Seconds kAccountAgain{1};
}  // namespace

std::optional<Supervisor::Outlook> Supervisor::outlook(const core::MicrovmId& id) const {
  const LivePtr vm = registry_.find(id);
  if (!vm) return std::nullopt;
  const core::Time now = services_.clock.now();
  const core::Aging aging = core::aging_of(vm->record);
  const bool stands = vm->machine && vm->machine->out_of_disk();
  return Outlook{stands ? kNoDisk : core::awake_reason(aging, vm->activity, now),
                 core::next_due(aging, vm->activity, now)};
}

net::Task<void> Supervisor::account_now(core::TenantId tenant) {
  const core::Time now = services_.clock.now();
  core::Time& last = accounted_[tenant];
  if (now >= last && now - last < kAccountAgain) co_return;
  last = now;
  for (const LivePtr& vm : registry_.all()) {
    if (vm->record.tenant == tenant) ticker_.sample(*vm, now);
  }
  co_await ticker_.save_meters(tenant);
}

}  // namespace firebreak::control
