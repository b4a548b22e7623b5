// Which network a microVM gets: names of policies become policies, policies become rules. Missing
// or unreadable means no network. Owned by the Supervisor; one executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/live_microvm.h"
#include "control/services.h"
#include "core/egress_decision.h"

namespace firebreak::control {

class Egress {
 public:
  Egress(Services& services, Registry& registry) : services_(services), registry_(registry) {}

  // Policies of the operator, for all tenants: those of the configuration.
  void set_common(std::map<std::string, core::EgressPolicy> policies) {
    common_ = std::move(policies);
  }

  // One of the two built-in ones, or the tenant's own, or the operator's. not_found.
  net::Task<Result<core::EgressPolicy>> find(core::TenantId tenant, std::string name);
  net::Task<Result<std::vector<core::EgressPolicy>>> list(core::TenantId tenant);
  // The tenant's own; running microVMs that have it get the new one.
  net::Task<Result<>> put(core::TenantId tenant, core::EgressPolicy policy, Deadline deadline);
  net::Task<Result<>> remove(core::TenantId tenant, std::string name);
  net::Task<Result<>> set_tenant(core::TenantId tenant, core::EgressSettings settings,
                                 Deadline deadline);

  // The policy's name for a new microVM: as asked, else the image's, else the tenant's. Refused
  // with the repair when the host has no networks and one was asked for.
  net::Task<Result<std::string>> choose(const core::Tenant& tenant,
                                        std::optional<std::string> asked,
                                        const core::ImageVersion& version);

  // The same refusals for one that is asked for by name.
  net::Task<Result<>> check_choice(core::TenantId tenant, std::string name);

  // Whether it has a card with something behind it.
  bool has_network(const LiveMicrovm& vm) const { return gives_network(vm.record.egress); }
  bool gives_network(std::string_view policy) const {
    return services_.networks != nullptr && policy != core::kNoEgress;
  }
  // Its policy decides from now on. Never fails open.
  net::Task<Result<>> admit(LivePtr vm, Deadline deadline);
  // Its record says that it has no network any more: nothing passes when this returns, whatever the
  // guest does.
  net::Task<Result<>> cut_off(LivePtr vm, Deadline deadline);
  // A clone of the pool has something behind its card: a microVM without a network lets it go. Not
  // before it runs: the tenant does not have the card, and nothing passes that nobody admitted.
  net::Task<void> leave_unused(LivePtr vm);
  // Lets the guest know of denials that it does not know of yet.
  net::Task<void> tell_guest(LivePtr vm);
  // Its machine goes; its counters stay.
  net::Task<void> dismiss(LivePtr vm);

  // The same for a machine that builds an image: the policy, kept in by the tenant's maximum.
  net::Task<Result<>> admit_build(core::TenantId tenant, std::string machine, std::string policy,
                                  Deadline deadline);
  net::Task<void> dismiss_build(std::string machine);

 private:
  // Of a tenant's maximum: built in or the operator's, because what a tenant can change keeps it
  // from nothing. not_found.
  Result<core::EgressPolicy> find_maximum(const std::string& name) const;
  net::Task<core::EgressStack> stack_for(core::TenantId tenant, std::string machine,
                                         std::string policy);
  // Everything of the tenant that is admitted, by what is in the store now.
  net::Task<Result<>> admit_again(core::TenantId tenant, Deadline deadline);

  Services& services_;
  Registry& registry_;
  std::map<std::string, core::EgressPolicy> common_;
  struct Build {
    core::TenantId tenant;
    std::string policy;
  };
  std::map<std::string, Build> builds_;  // that have a network, by machine
};

}  // namespace firebreak::control
