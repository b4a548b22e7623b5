// The gate of a server that has limits and nothing else: how often a tenant may launch. Limits on
// what a tenant has at a time are compared where it is written (store::Store::create_microvm),
// because only the store sees them whole. Asked acts are counted. One executor.
#pragma once

#include <functional>
#include <map>

#include "control/gate.h"
#include "core/clock.h"
#include "core/limits.h"
#include "obs/metrics.h"

namespace firebreak::control {

class LimitsGate : public Gate {
 public:
  // The limits of a tenant as they are now; nullptr when there is no such tenant.
  using Limits = std::function<const core::TenantLimits*(const core::TenantId&)>;
  LimitsGate(Limits limits, const core::Clock& clock, obs::Metrics& metrics);

  net::Task<Result<>> ask(Ask ask) override;

 private:
  Result<> take_launch(const Ask& ask);

  Limits limits_;
  const core::Clock& clock_;
  obs::Metrics& metrics_;
  std::map<core::TenantId, core::TokenBucket> launch_rates_;
};

}  // namespace firebreak::control
