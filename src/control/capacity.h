// Whether the host can take one more microVM, and making room when it cannot: parked clones first,
// then bases nobody uses, then the microVM longest without activity, of the tenant that holds most,
// is suspended. Owned by the Supervisor; one executor.
#pragma once

#include "control/lifecycle.h"
#include "control/live_microvm.h"
#include "control/services.h"
#include "control/warm_pool.h"

namespace firebreak::control {

class Capacity {
 public:
  Capacity(Services& services, Registry& registry, WarmPool& pool, Lifecycle& lifecycle)
      : services_(services), registry_(registry), pool_(pool), lifecycle_(lifecycle) {}

  // Code::unavailable with what ran out when even giving things up does not make room.
  net::Task<Result<>> admit(const core::TenantId& tenant, const core::SizeClass& size,
                            Deadline deadline);
  // Gives things up until the host's use fits its budget.
  net::Task<void> relieve();
  core::HostUse use() const;
  // Whether memory is left for something that nobody asked for, and for a launch beside it.
  bool has_room() const;

 private:
  std::vector<core::Reclaimable> candidates() const;
  std::vector<core::Reclaimable> victims_for(core::Shortage shortage, const core::HostUse& now,
                                             const core::TenantId& tenant) const;
  net::Task<void> give_up(std::vector<core::Reclaimable> victims);

  Services& services_;
  Registry& registry_;
  WarmPool& pool_;
  Lifecycle& lifecycle_;
};

}  // namespace firebreak::control
