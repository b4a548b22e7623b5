// Which network a microVM gets: names of policies become policies, policies become rules. Missing
// or unreadable means no network. Owned by the
// Supervisor; one executor.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "control/live_microvms.h"
#include "core/egress_decision.h"
#include "obs/log.h"
#include "store/database.h"

namespace firebreak::egress {
class Networks;
}

namespace firebreak::control {

class Egress {
 public:
  struct Needs {
    store::Database& db;
    obs::Log& log;
    const LiveMicrovms& live;
    egress::Networks* networks;  // none: this host has none for microVMs
  };
  explicit Egress(Needs needs) : needs_(needs) {}

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

  // The same when nothing was asked for.
  std::string default_for(const core::Tenant& tenant, const core::ImageVersion& version) const;

  // The same refusals as choose(), for a policy that a caller names.
  net::Task<Result<>> check_choice(core::TenantId tenant, std::string name);

  // Whether the microVM has a card with a network behind it.
  bool has_network(const LiveMicrovm& vm) const { return gives_network(vm.record().egress); }
  bool gives_network(std::string_view policy) const {
    return needs_.networks != nullptr && policy != core::kNoEgress;
  }
  // The microVM's policy decides from now on. Never fails open.
  net::Task<Result<>> admit(LivePtr vm, Deadline deadline);
  // For a microVM whose record says that it has no network any more: nothing passes when this
  // returns, whatever the guest does.
  net::Task<Result<>> cut_off(LivePtr vm, Deadline deadline);
  // Takes the network away that a parked clone had, from a microVM that is to have none. Called
  // once it runs: until then the tenant does not have the card, and nothing passes without admit().
  net::Task<void> leave_unused(LivePtr vm);
  // Tells the guest of new denials.
  net::Task<void> tell_guest(LivePtr vm);
  // The microVM's machine ends; its counters stay.
  net::Task<void> dismiss(LivePtr vm);

  // The same for a machine that builds an image: its policy, within the tenant's maximum.
  net::Task<Result<>> admit_build(core::TenantId tenant, std::string machine, std::string policy,
                                  Deadline deadline);
  net::Task<void> dismiss_build(std::string machine);

 private:
  // The policy of a tenant's maximum: a built-in one or the operator's, never the tenant's own,
  // because a tenant could change its own. not_found.
  Result<core::EgressPolicy> find_maximum(const std::string& name) const;
  net::Task<core::EgressStack> stack_for(core::TenantId tenant, std::string machine,
                                         std::string policy);
  net::Task<Result<>> decide_again(std::string machine, core::TenantId tenant,
                                   std::function<std::string()> policy, Deadline deadline);
  // Admits the tenant's admitted microVMs and builds again, with the policies in the store now.
  net::Task<Result<>> admit_again(core::TenantId tenant, Deadline deadline);

  Needs needs_;
  std::map<std::string, core::EgressPolicy> common_;
  struct Build {
    core::TenantId tenant;
    std::string policy;
  };
  std::map<std::string, Build> builds_;  // that have a network, by machine
};

}  // namespace firebreak::control
