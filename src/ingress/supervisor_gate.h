// The proxy's way to the server's microVMs. Owned by the program; one executor.
#pragma once

#include "control/supervisor.h"
#include "ingress/gate.h"

namespace firebreak::ingress {

class SupervisorGate final : public Gate {
 public:
  explicit SupervisorGate(control::Supervisor& supervisor) : supervisor_(supervisor) {}
  std::optional<Place> find(const core::MicrovmId& microvm) override;
  net::Task<Result<std::unique_ptr<Visit>>> enter(core::MicrovmId microvm,
                                                  Deadline deadline) override;

 private:
  control::Supervisor& supervisor_;
};

}  // namespace firebreak::ingress
