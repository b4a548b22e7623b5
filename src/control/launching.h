// From a request to a record: which version, which network, is there room; then the microVM is
// written as PENDING and goes on by itself. Nothing is started for a microVM that is not written.
// Owned by the Supervisor; one executor.
#pragma once

#include <string>
#include <vector>

#include "control/capacity.h"
#include "control/gate.h"
#include "control/launch_request.h"
#include "control/transitions.h"
#include "control/warm_pool.h"
#include "net/task_group.h"

namespace firebreak::control {

// The engine of that name, if it is here and can do what is asked for.
Result<const machine::Engine*> engine_for(const machine::Engines& engines, const std::string& name,
                                          bool network, bool idle);

class Launching {
 public:
  struct Needs {
    const machine::Engines& engines;
    store::Database& db;
    Gate& gate;
    const core::Clock& clock;
    Pauses& pauses;
    const Steps& steps;
    LiveMicrovms& live;
    Transitions& transitions;
    WarmPool& pool;
    Capacity& capacity;
    net::asio::any_io_executor executor;
    net::TaskGroup& tasks;  // launches that go on
  };
  explicit Launching(Needs needs) : needs_(std::move(needs)) {}

  // Written as PENDING; the launch goes on by itself. The same client token gives the same microVM.
  net::Task<Result<core::Microvm>> launch(const core::Tenant& tenant, LaunchRequest request,
                                          Deadline deadline);
  // The children, PENDING, all of them or none; they go on by themselves.
  net::Task<Result<std::vector<core::Microvm>>> fork(const core::Tenant& tenant, LivePtr parent,
                                                     std::uint32_t count, Deadline deadline);

 private:
  // What a launch was decided to be, before it is written.
  struct Plan {
    core::Time asked{};  // when the launch was asked for
    RunnableVersion chosen;
    core::SizeClass size;
    std::string egress;
    const machine::Engine* engine = nullptr;
  };
  net::Task<Result<Plan>> plan(const core::Tenant& tenant, LaunchRequest& request,
                               Deadline deadline);
  // Waits while the first version of the image is being built.
  net::Task<Result<RunnableVersion>> choose(core::TenantId tenant, const LaunchRequest& request,
                                            Deadline deadline);
  net::Task<Result<RunnableVersion>> choose_now(core::TenantId tenant,
                                                const LaunchRequest& request);
  static core::Microvm record_of(const core::Tenant& tenant, LaunchRequest request,
                                 const Plan& plan);
  core::Microvm child_of(const LiveMicrovm& parent) const;
  LivePtr go_live(core::Microvm record, const core::ImageVersion& version,
                  const core::SizeClass& size);

  Needs needs_;
};

}  // namespace firebreak::control
