// MicroVMs with a life: what the APIs call. Wires the parts (registry, lifecycle, pool, capacity),
// recovers what an earlier server left, and lets time act. Owned by the program; one executor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/capacity.h"
#include "control/lifecycle.h"
#include "control/live_microvm.h"
#include "control/services.h"
#include "control/ticker.h"
#include "control/warm_pool.h"
#include "net/task_group.h"

namespace firebreak::control {

struct LaunchRequest {
  std::string image;  // name or id
  std::optional<std::uint32_t> version;
  std::optional<core::IdlePolicy> idle;
  std::optional<core::Seconds> max_duration;
  std::string payload;
  core::Tags tags;
  std::string client_token;
  std::string request_hash;
  std::string config;
  std::optional<std::string> egress;  // name of a policy; unset: the image's, or the tenant's
  std::string role;                   // name; empty: its guest gets no credentials
  std::string name;                   // for people; may be empty
  core::Environment env;              // of its execs
};

// What is unset stays; what is set to nothing is taken away.
struct MicrovmUpdate {
  std::optional<std::optional<core::IdlePolicy>> idle;
  std::optional<std::optional<core::Seconds>> max_duration;
  std::optional<std::string> egress;
  std::optional<std::string> name;
};

// Why it ended, when its tenant, or an administrator, asked for it.
inline constexpr const char* kEndedAsAsked = "Success.";
inline constexpr const char* kEndedByAdministrator = "An administrator ended it.";
inline constexpr const char* kSeenByAdministrator = "An administrator looked at it.";

// What is said of a microVM whose guest stands still, and to those who call it.
inline constexpr const char* kNoDisk =
    "the host's disk is full: the microVM stands still until there is room; free space on the "
    "host, "
    "or terminate microVMs";

// Access to the agent of a running microVM. While it is held the microVM counts as working, and the
// machine object stays, also when the microVM is suspended or ends: calls fail then.
class Lease {
 public:
  Lease(LivePtr vm, Services& services);
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  machine::AgentClient& agent() const { return machine_->agent(); }
  const core::Microvm& microvm() const { return vm_->record; }
  const core::ImageVersion& version() const { return vm_->version; }
  // Bytes that went in and out for the user: traffic, for idling and for the bill.
  void count(std::uint64_t in, std::uint64_t out) const;

 private:
  LivePtr vm_;
  std::shared_ptr<machine::Machine> machine_;
  Services* services_;
};

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
                                                Deadline deadline);
  net::Task<Result<core::Microvm>> get(core::TenantId tenant, core::MicrovmId id);
  net::Task<Result<core::Microvm>> suspend(core::TenantId tenant, core::MicrovmId id,
                                           Deadline deadline);
  net::Task<Result<core::Microvm>> resume(core::TenantId tenant, core::MicrovmId id,
                                          Deadline deadline);
  net::Task<Result<core::Microvm>> terminate(core::TenantId tenant, core::MicrovmId id,
                                             Deadline deadline, std::string why = kEndedAsAsked);
  // The children, PENDING; they go on by themselves.
  net::Task<Result<std::vector<core::Microvm>>> fork(const core::Tenant& tenant, core::MicrovmId id,
                                                     std::uint32_t count, Deadline deadline);
  net::Task<Result<core::Microvm>> update(core::TenantId tenant, core::MicrovmId id,
                                          MicrovmUpdate update, Deadline deadline);
  // Tells its tenant, as an event.
  net::Task<Result<>> note(core::MicrovmId id, std::string what);
  // Holds the caller while the microVM starts or is brought back. Code::conflict when it is
  // suspended and its policy says that only an explicit resume wakes it, or when it has ended.
  net::Task<Result<Lease>> acquire(core::TenantId tenant, core::MicrovmId id, Deadline deadline);

  // Puts right one whose machine is not what its state says: one that runs without a process is
  // ended, what runs beside a saved state as well. True: it was, or is well.
  net::Task<bool> settle(core::MicrovmId id);

  // Why it is awake, and when what happens next.
  struct Outlook {
    std::string awake_because;
    std::optional<core::Due> next;
  };
  std::optional<Outlook> outlook(const core::MicrovmId& id) const;

  // Brings the stored meters of a tenant up to this moment, or to less than a second ago.
  net::Task<void> account_now(core::TenantId tenant);

  Egress& egress() { return lifecycle_.egress(); }
  Roles& roles() { return lifecycle_.roles(); }
  net::Broadcast& changed() { return services_.changed; }
  WarmPool& pool() { return pool_; }
  const Capacity& capacity() const { return capacity_; }
  Capacity& capacity() { return capacity_; }
  const Registry& registry() const { return registry_; }
  Services& services() { return services_; }

 private:
  struct Chosen {
    core::Image image;
    core::ImageVersion version;
    core::SizeClass size;
  };
  net::Task<Result<Chosen>> choose(core::TenantId tenant, const LaunchRequest& request,
                                   Deadline deadline);
  // Code::unavailable while the image's first version is being built.
  net::Task<Result<Chosen>> choose_now(core::TenantId tenant, const LaunchRequest& request);
  // Finds room for one that is SUSPENDED, and resumes it.
  net::Task<Result<>> wake(LivePtr vm, Deadline deadline);
  net::Task<Result<LivePtr>> find(core::TenantId tenant, core::MicrovmId id);

  Services& services_;
  Registry registry_;
  Lifecycle lifecycle_;
  WarmPool pool_;
  Capacity capacity_;
  std::map<core::TenantId, core::Time> accounted_;
  bool stopping_ = false;
  Ticker ticker_;
  net::TaskGroup tasks_;  // last: they use what is above
};

}  // namespace firebreak::control
