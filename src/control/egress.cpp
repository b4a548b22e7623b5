#include "control/egress.h"

#include <algorithm>

#include "egress/networks.h"

namespace firebreak::control {
namespace {

constexpr auto kDismissDeadline = std::chrono::seconds(5);
constexpr auto kTellDeadline = std::chrono::seconds(2);

bool built_in(std::string_view name) {
  return name == core::kInternetEgress || name == core::kNoEgress;
}

}  // namespace

net::Task<Result<core::EgressPolicy>> Egress::find(core::TenantId tenant, std::string name) {
  if (name == core::kInternetEgress) co_return core::internet_egress();
  if (name == core::kNoEgress) co_return core::no_egress();
  auto own = co_await needs_.db.run(
      [&](const store::Store& store) { return store.find_egress_policy(tenant, name); });
  if (!own) co_return std::unexpected(own.error());
  if (*own) co_return **std::move(own);
  if (auto at = common_.find(name); at != common_.end()) co_return at->second;
  co_return fail(Code::not_found, Reason{"egress_policy_not_found"},
                 "there is no egress policy " + name,
                 Repair{"firebreak egress ls shows those there are"});
}

Result<core::EgressPolicy> Egress::find_maximum(const std::string& name) const {
  if (name == core::kInternetEgress) return core::internet_egress();
  if (name == core::kNoEgress) return core::no_egress();
  if (auto at = common_.find(name); at != common_.end()) return at->second;
  return fail(Code::not_found, Reason{"egress_policy_not_found"},
              "no egress policy " + name + " can be a maximum",
              Repair{"name INTERNET_EGRESS, NO_EGRESS or one of the file given to serve "
                     "--egress-policies"});
}

net::Task<Result<std::vector<core::EgressPolicy>>> Egress::list(core::TenantId tenant) {
  FB_CO_TRY_ASSIGN(std::vector<core::EgressPolicy> all,
                   co_await needs_.db.run([&](const store::Store& store) {
                     return store.list_egress_policies(tenant);
                   }));
  for (const auto& [name, policy] : common_) {
    const auto same = [&name](const core::EgressPolicy& own) { return own.name == name; };
    if (std::ranges::none_of(all, same)) all.push_back(policy);
  }
  all.push_back(core::internet_egress());
  all.push_back(core::no_egress());
  co_return all;
}

net::Task<Result<>> Egress::put(core::TenantId tenant, core::EgressPolicy policy,
                                Deadline deadline) {
  if (built_in(policy.name))
    co_return fail(Code::conflict, Reason{"built_in"}, policy.name + " is built in",
                   Repair{"give yours another name"});
  FB_CO_TRY(core::check(policy));
  FB_CO_TRY(co_await needs_.db.run(
      [&](store::Store& store) { return store.put_egress_policy(tenant, policy); }));
  co_return co_await admit_again(tenant, deadline);
}

net::Task<Result<>> Egress::remove(core::TenantId tenant, std::string name) {
  for (const LivePtr& vm : needs_.live.all()) {
    if (vm->record().tenant == tenant && vm->record().egress == name)
      co_return fail(Code::conflict, Reason{"in_use"},
                     "microVM " + vm->record().id.str() + " has this policy",
                     Repair{"give it another, or terminate it"});
  }
  co_return co_await needs_.db.run(
      [&](store::Store& store) { return store.remove_egress_policy(tenant, name); });
}

net::Task<Result<>> Egress::set_tenant(core::TenantId tenant, core::EgressSettings settings,
                                       Deadline deadline) {
  FB_CO_TRY(co_await find(tenant, settings.run_default));
  FB_CO_TRY(find_maximum(settings.maximum));
  FB_CO_TRY(co_await needs_.db.run(
      [&](store::Store& store) { return store.set_egress(tenant, settings); }));
  co_return co_await admit_again(tenant, deadline);
}

net::Task<Result<std::string>> Egress::choose(const core::Tenant& tenant,
                                              std::optional<std::string> asked,
                                              const core::ImageVersion& version) {
  if (asked) {
    FB_CO_TRY(co_await check_choice(tenant.id, *asked));
    co_return *asked;
  }
  co_return default_for(tenant, version);
}

std::string Egress::default_for(const core::Tenant& tenant,
                                const core::ImageVersion& version) const {
  if (needs_.networks == nullptr) return std::string(core::kNoEgress);
  return version.egress.empty() ? tenant.egress.run_default : version.egress;
}

net::Task<Result<>> Egress::check_choice(core::TenantId tenant, std::string name) {
  FB_CO_TRY(co_await find(tenant, name));
  if (name != core::kNoEgress && needs_.networks == nullptr)
    co_return fail(Code::unavailable, Reason{"no_networks"},
                   "this host has no networks for microVMs",
                   Repair{"firebreak doctor says why, and how to repair it. Without a network: "
                          "--egress NO_EGRESS"});
  co_return Result<>();
}

net::Task<core::EgressStack> Egress::stack_for(core::TenantId tenant_id, std::string machine,
                                               std::string policy_name) {
  core::EgressStack stack{core::no_egress(), core::no_egress(), {}};
  auto tenant = co_await needs_.db.run(
      [&](const store::Store& store) { return store.find_tenant(tenant_id); });
  Result<core::EgressPolicy> maximum = fail(Code::not_found, "the tenant is gone");
  if (tenant && *tenant) maximum = find_maximum((*tenant)->egress.maximum);
  auto policy = co_await find(tenant_id, policy_name);
  if (!maximum || !policy) {
    needs_.log.error("egress policy cannot be read: no network",
                     {{"id", machine}, {"error", (maximum ? policy : maximum).error().text()}});
    co_return stack;
  }
  stack.maximum = *std::move(maximum);
  stack.policy = *std::move(policy);
  co_return stack;
}

net::Task<Result<>> Egress::admit(LivePtr vm, Deadline deadline) {
  if (!has_network(*vm)) co_return Result<>();
  FB_CO_TRY_ASSIGN(egress::Networks::Admission admission,
                   co_await needs_.networks->admit(vm->id().str(), deadline));
  core::EgressStack stack = co_await stack_for(vm->tenant(), vm->id().str(), vm->record().egress);
  co_return co_await admission.decide_by(std::move(stack), deadline);
}

// For one that is admitted already: nothing for any other. The policy's name is read when it has
// its turn.
net::Task<Result<>> Egress::decide_again(std::string machine, core::TenantId tenant,
                                         std::function<std::string()> policy, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto admission, co_await needs_.networks->admit_again(machine, deadline));
  if (!admission) co_return Result<>();
  core::EgressStack stack = co_await stack_for(tenant, machine, policy());
  co_return co_await admission->decide_by(std::move(stack), deadline);
}

net::Task<Result<>> Egress::cut_off(LivePtr vm, Deadline deadline) {
  const std::shared_ptr<machine::Machine> machine = vm->machine();
  if (needs_.networks == nullptr || !machine) co_return Result<>();
  const auto nothing = [] { return std::string(core::kNoEgress); };
  const Result<> closed = co_await decide_again(vm->id().str(), vm->tenant(), nothing, deadline);
  if (!closed)
    needs_.log.error("the rules that close a network cannot be loaded; it is removed",
                     {{"id", vm->record().id.str()}, {"error", closed.error().text()}});
  co_await dismiss(vm);
  FB_CO_TRY(co_await machine->detach_network());
  if (auto told = co_await machine->agent().set_network(false, Deadline::in(kTellDeadline)); !told)
    needs_.log.warn("a guest keeps a card that leads nowhere",
                    {{"id", vm->record().id.str()}, {"error", told.error().text()}});
  co_return Result<>();
}

net::Task<void> Egress::leave_unused(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine();
  if (!machine || has_network(*vm)) co_return;
  co_await dismiss(vm);
  if (auto left = co_await machine->detach_network(); !left)
    needs_.log.warn("an unused network stays",
                    {{"id", vm->record().id.str()}, {"error", left.error().text()}});
}

net::Task<void> Egress::tell_guest(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine();
  if (!machine || !has_network(*vm)) co_return;
  auto news = needs_.networks->news(vm->record().id.str());
  if (news)
    (void)co_await machine->agent().set_egress_summary(*news, Deadline::in(kDismissDeadline));
}

net::Task<void> Egress::dismiss(LivePtr vm) {
  if (needs_.networks != nullptr)
    co_await needs_.networks->dismiss(vm->record().id.str(), Deadline::in(kDismissDeadline));
}

net::Task<Result<>> Egress::admit_build(core::TenantId tenant, std::string machine,
                                        std::string policy, Deadline deadline) {
  if (needs_.networks == nullptr || policy == core::kNoEgress) co_return Result<>();
  builds_[machine] = {tenant, policy};
  FB_CO_TRY_ASSIGN(egress::Networks::Admission admission,
                   co_await needs_.networks->admit(machine, deadline));
  core::EgressStack stack = co_await stack_for(tenant, machine, policy);
  co_return co_await admission.decide_by(std::move(stack), deadline);
}

net::Task<void> Egress::dismiss_build(std::string machine) {
  builds_.erase(machine);
  if (needs_.networks != nullptr)
    co_await needs_.networks->dismiss(std::move(machine), Deadline::in(kDismissDeadline));
}

net::Task<Result<>> Egress::admit_again(core::TenantId tenant, Deadline deadline) {
  if (needs_.networks == nullptr) co_return Result<>();
  struct Admitted {
    std::string machine;
    std::function<std::string()> policy;
  };
  std::vector<Admitted> all;
  for (const LivePtr& vm : needs_.live.all()) {
    if (vm->tenant() == tenant)
      all.push_back({vm->id().str(), [vm] { return vm->record().egress; }});
  }
  for (const auto& [machine, build] : builds_) {
    if (build.tenant == tenant)
      all.push_back({machine, [policy = build.policy] { return policy; }});
  }
  Result<> first;
  for (const Admitted& each : all) {
    auto admitted = co_await decide_again(each.machine, tenant, each.policy, deadline);
    if (first && !admitted) first = std::move(admitted);
  }
  co_return first;
}

}  // namespace firebreak::control
