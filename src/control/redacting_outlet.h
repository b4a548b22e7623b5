// The outlet that takes a tenant's secrets out of what its guests send. Stands on another outlet,
// which counts the bytes as they came. Owned by the server; one executor.
#pragma once

#include "control/outlet.h"
#include "control/secret_book.h"
#include "obs/metrics.h"

namespace firebreak::control {

class RedactingOutlet : public Outlet {
 public:
  RedactingOutlet(Outlet& counted, const SecretBook& secrets, obs::Metrics& metrics);

  std::unique_ptr<Flow> open(const Passage& passage) override;
  std::size_t reach(const core::TenantId& tenant) const override;
  void count_traffic(const core::TenantId& tenant, std::uint64_t bytes) override {
    counted_.count_traffic(tenant, bytes);
  }

 private:
  Outlet& counted_;
  const SecretBook& secrets_;
  obs::Counter taken_out_;
};

}  // namespace firebreak::control
