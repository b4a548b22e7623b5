// Access to guests: a lease on one that runs, and bringing back one that sleeps. However many call
// one that sleeps, room is found for it once. Owned by the Supervisor; one executor.
#pragma once

#include "control/capacity.h"
#include "control/gate.h"
#include "control/live_microvms.h"
#include "control/starting.h"
#include "obs/metrics.h"

namespace firebreak::control {

// What is said of a microVM whose guest stands still, and to those who call it.
inline constexpr const char* kNoDisk =
    "the host's disk is full: the microVM stands still until there is room; free space on the "
    "host, "
    "or terminate microVMs";

// Access to the agent of a running microVM. While it is held the microVM counts as working, and the
// machine object stays, also when the microVM is suspended or ends: calls fail then.
class Lease {
 public:
  Lease(LivePtr vm, const core::Clock& clock, Traffic& traffic);
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  machine::AgentClient& agent() const { return machine_->agent(); }
  const core::Microvm& microvm() const { return vm_->record(); }
  const core::ImageVersion& version() const { return vm_->version(); }
  // Bytes that went in and out for the user: traffic, for idling and for the bill.
  void count(std::uint64_t in, std::uint64_t out) const;

 private:
  LivePtr vm_;
  std::shared_ptr<machine::Machine> machine_;
  const core::Clock* clock_;
  Traffic* traffic_;
};

class Waking {
 public:
  struct Needs {
    const machine::Engines& engines;
    store::Database& db;
    Gate& gate;
    const core::Clock& clock;
    Traffic& traffic;
    LiveMicrovms& live;
    Capacity& capacity;
    Starting& starting;
  };
  explicit Waking(Needs needs) : needs_(needs) {}

  // The record, also of one that has ended. not_found.
  net::Task<Result<core::Microvm>> get(core::TenantId tenant, core::MicrovmId id);
  // Only those that are not TERMINATED; of one that is, Code::conflict. Code::unavailable of one
  // whose engine this server does not have: nothing can be done with it here.
  net::Task<Result<LivePtr>> find(core::TenantId tenant, core::MicrovmId id);
  // Until it is no longer PENDING; what it is then.
  net::Task<Result<core::Microvm>> wait_started(core::TenantId tenant, core::MicrovmId id,
                                                Deadline deadline);
  // Finds room for one that is SUSPENDED, and resumes it.
  net::Task<Result<>> wake(LivePtr vm, Deadline deadline);
  // Holds the caller while the microVM starts or is brought back. Code::conflict when it is
  // suspended and its policy says that only an explicit resume wakes it, or when it has ended.
  net::Task<Result<Lease>> acquire(core::TenantId tenant, core::MicrovmId id, Deadline deadline);

 private:
  Needs needs_;
};

}  // namespace firebreak::control
