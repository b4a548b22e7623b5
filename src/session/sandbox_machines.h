// What sessions need of microVMs, so that their rules can be tried without any. Owned by the
// program; one executor.
#pragma once

#include <map>
#include <memory>

#include "core/sandbox.h"
#include "session/guest.h"

namespace firebreak::session {

class SandboxMachines {
 public:
  virtual ~SandboxMachines() = default;

  // A microVM of the session's template, once it runs; from the pool where one is parked.
  virtual net::Task<Result<core::MicrovmId>> launch(core::Tenant tenant,
                                                    core::SandboxSession session,
                                                    Deadline deadline) = 0;
  // It is what it should be, as far as the host can see by itself: the snapshot it came from is
  // what was recorded, and the agent that answers is the one that was woken. Nothing that the guest
  // says about itself counts.
  virtual net::Task<Result<>> verify(core::TenantId tenant, core::MicrovmId microvm,
                                     Deadline deadline) = 0;
  virtual net::Task<Result<Guest>> enter(core::TenantId tenant, core::MicrovmId microvm,
                                         Deadline deadline) = 0;
  // Ended, with everything it had. One that has ended already is fine.
  virtual net::Task<Result<>> end(core::TenantId tenant, core::MicrovmId microvm, std::string why,
                                  Deadline deadline) = 0;
  // CPU-seconds so far, as last metered; 0 when nothing is known.
  virtual std::uint64_t cpu_seconds(const core::MicrovmId& microvm) const = 0;
  // Those that live, by the session they were launched for.
  virtual std::multimap<core::SessionId, core::Microvm> living() const = 0;
};

// On the server's own microVMs.
std::unique_ptr<SandboxMachines> make_sandbox_machines(control::Supervisor& supervisor,
                                                       Guests& guests);

}  // namespace firebreak::session
