// The outlet that counts: bytes pass as they are and are counted in
// firebreak_guest_bytes_total, by origin. One executor.
#pragma once

#include <vector>

#include "control/outlet.h"
#include "obs/metrics.h"

namespace firebreak::control {

class CountingOutlet : public Outlet {
 public:
  explicit CountingOutlet(obs::Metrics& metrics);
  std::unique_ptr<Flow> open(const Passage& passage) override;
  std::size_t reach(const core::TenantId&) const override { return 0; }
  void count_traffic(const core::TenantId& tenant, std::uint64_t bytes) override;

 private:
  std::vector<obs::Counter> counted_;  // by origin
};

}  // namespace firebreak::control
