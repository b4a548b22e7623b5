// MicroVMs with a life: what doors and sessions call. Each call finds the microVM of its tenant and
// hands it to the part that does the work; the parts are wired here. Recovers what an earlier
// server left, and lets time act. Owned by the program; one executor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/capacity.h"
#include "control/launch_request.h"
#include "control/launching.h"
#include "control/live_microvms.h"
#include "control/services.h"
#include "control/ticker.h"
#include "control/transitions.h"
#include "control/waking.h"
#include "control/warm_pool.h"
#include "net/task_group.h"

namespace firebreak::control {

// Why it ended, when its tenant, or an administrator, asked for it.
inline constexpr const char* kEndedAsAsked = "Success.";
inline constexpr const char* kEndedByAdministrator = "An administrator ended it.";
inline constexpr const char* kSeenByAdministrator = "An administrator looked at it.";

class Supervisor {
 public:
  Supervisor(Services& services);

  // Re-adopts, finishes or undoes what an earlier server left; then refills the pool and lets time
  // act until stop().
  net::Task<Result<>> start();
  // Ends the background work and the parked clones; microVMs keep running.
  net::Task<void> stop(Deadline deadline);

  // Written as PENDING; the launch goes on by itself. The same client token gives the same microVM.
  net::Task<Result<core::Microvm>> launch(const core::Tenant& tenant, LaunchRequest request,
                                          Deadline deadline);
  // Until it is no longer PENDING; what it is then.
  net::Task<Result<core::Microvm>> wait_started(core::TenantId tenant, core::MicrovmId id,
                                                Deadline deadline) {
    return waking_.wait_started(std::move(tenant), std::move(id), deadline);
  }
  net::Task<Result<core::Microvm>> get(core::TenantId tenant, core::MicrovmId id) {
    return waking_.get(std::move(tenant), std::move(id));
  }
  net::Task<Result<core::Microvm>> suspend(core::TenantId tenant, core::MicrovmId id,
                                           Deadline deadline);
  net::Task<Result<core::Microvm>> resume(core::TenantId tenant, core::MicrovmId id,
                                          Deadline deadline);
  net::Task<Result<core::Microvm>> terminate(core::TenantId tenant, core::MicrovmId id,
                                             Deadline deadline, std::string why = kEndedAsAsked);
  // The children, PENDING, all of them or none; they go on by themselves.
  net::Task<Result<std::vector<core::Microvm>>> fork(const core::Tenant& tenant, core::MicrovmId id,
                                                     std::uint32_t count, Deadline deadline);
  net::Task<Result<core::Microvm>> update(core::TenantId tenant, core::MicrovmId id,
                                          MicrovmUpdate update, Deadline deadline);
  // Tells its tenant, as an event.
  net::Task<Result<>> note(core::MicrovmId id, std::string what) {
    return transitions_.journal.note(std::move(id), std::move(what));
  }
  // Holds the caller while the microVM starts or is brought back. Code::conflict when it is
  // suspended and its policy says that only an explicit resume wakes it, or when it has ended.
  net::Task<Result<Lease>> acquire(core::TenantId tenant, core::MicrovmId id, Deadline deadline) {
    return waking_.acquire(std::move(tenant), std::move(id), deadline);
  }

  // Puts right one whose machine is not what its state says. True: it was, or is well.
  net::Task<bool> settle(core::MicrovmId id);

  // Why it is awake, and when what happens next.
  struct Outlook {
    std::string awake_because;
    std::optional<core::Due> next;
  };
  std::optional<Outlook> outlook(const core::MicrovmId& id) const;

  // Brings the stored meters of a tenant up to this moment, or to less than a second ago.
  net::Task<void> account_now(core::TenantId tenant);

  Egress& egress() { return transitions_.egress; }
  Roles& roles() { return transitions_.roles; }
  net::Broadcast& changed() { return services_.changed; }
  WarmPool& pool() { return pool_; }
  const Capacity& capacity() const { return capacity_; }
  Capacity& capacity() { return capacity_; }
  const LiveMicrovms& live() const { return live_; }
  Services& services() { return services_; }

 private:
  Services& services_;
  LiveMicrovms live_;
  WarmPool pool_;
  Transitions transitions_;
  Capacity capacity_;
  Waking waking_;
  std::map<core::TenantId, core::Time> accounted_;
  bool stopping_ = false;
  Ticker ticker_;
  net::TaskGroup tasks_;  // they use what is above
  Launching launching_;   // and starts them
};

}  // namespace firebreak::control
