#include "control/egress.h"

#include <algorithm>

#include "egress/networks.h"

namespace firebreak::control {
namespace {

constexpr auto kDismissDeadline = std::chrono::seconds(5);
constexpr auto kTellDeadline = std::chrono::seconds(2);
constexpr const char* kNoNetworks =
    "this host has no networks for microVMs; firebreak doctor says why, and how to repair it. "
    "Without a network: --egress NO_EGRESS";

bool built_in(std::string_view name) {
  return name == core::kInternetEgress || name == core::kNoEgress;
}

}  // namespace

net::Task<Result<core::EgressPolicy>> Egress::find(core::TenantId tenant, std::string name) {
  if (name == core::kInternetEgress) co_return core::internet_egress();
  if (name == core::kNoEgress) co_return core::no_egress();
  auto own = co_await services_.db.run(
      [&](const store::Store& store) { return store.find_egress_policy(tenant, name); });
  if (!own) co_return std::unexpected(own.error());
  if (*own) co_return **std::move(own);
  if (auto at = common_.find(name); at != common_.end()) co_return at->second;
  co_return fail(Code::not_found, "there is no egress policy " + name +
                                      "; firebreak egress ls shows those there are");
}

Result<core::EgressPolicy> Egress::find_maximum(const std::string& name) const {
  if (name == core::kInternetEgress) return core::internet_egress();
  if (name == core::kNoEgress) return core::no_egress();
  if (auto at = common_.find(name); at != common_.end()) return at->second;
  return fail(Code::not_found, "no egress policy " + name +
                                   " can be a maximum: it must be INTERNET_EGRESS, NO_EGRESS or "
                                   "one of the file given to serve --egress-policies");
}

net::Task<Result<std::vector<core::EgressPolicy>>> Egress::list(core::TenantId tenant) {
  FB_CO_TRY_ASSIGN(std::vector<core::EgressPolicy> all,
                   co_await services_.db.run([&](const store::Store& store) {
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
    co_return fail(Code::conflict, policy.name + " is built in; give yours another name");
  FB_CO_TRY(core::check(policy));
  FB_CO_TRY(co_await services_.db.run(
      [&](store::Store& store) { return store.put_egress_policy(tenant, policy); }));
  co_return co_await admit_again(tenant, deadline);
}

net::Task<Result<>> Egress::remove(core::TenantId tenant, std::string name) {
  for (const LivePtr& vm : registry_.all()) {
    if (vm->record.tenant == tenant && vm->record.egress == name)
      co_return fail(Code::conflict, "microVM " + vm->record.id.str() +
                                         " has this policy; give it another, or terminate it");
  }
  co_return co_await services_.db.run(
      [&](store::Store& store) { return store.remove_egress_policy(tenant, name); });
}

net::Task<Result<>> Egress::set_tenant(core::TenantId tenant, core::EgressSettings settings,
                                       Deadline deadline) {
  FB_CO_TRY(co_await find(tenant, settings.run_default));
  FB_CO_TRY(find_maximum(settings.maximum));
  FB_CO_TRY(co_await services_.db.run(
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
  if (services_.networks == nullptr) co_return std::string(core::kNoEgress);
  if (!version.egress.empty()) co_return version.egress;
  co_return tenant.egress.run_default;
}

net::Task<Result<>> Egress::check_choice(core::TenantId tenant, std::string name) {
  FB_CO_TRY(co_await find(tenant, name));
  if (name != core::kNoEgress && services_.networks == nullptr)
    co_return fail(Code::unavailable, kNoNetworks);
  co_return Result<>();
}

net::Task<core::EgressStack> Egress::stack_for(core::TenantId tenant_id, std::string machine,
                                               std::string policy_name) {
  core::EgressStack stack{core::no_egress(), core::no_egress(), {}};
  auto tenant = co_await services_.db.run(
      [&](const store::Store& store) { return store.find_tenant(tenant_id); });
  Result<core::EgressPolicy> maximum = fail(Code::not_found, "the tenant is gone");
  if (tenant && *tenant) maximum = find_maximum((*tenant)->egress.maximum);
  auto policy = co_await find(tenant_id, policy_name);
  if (!maximum || !policy) {
    services_.log.error("egress policy cannot be read: no network",
                        {{"id", machine}, {"error", (maximum ? policy : maximum).error().text()}});
    co_return stack;
  }
  stack.maximum = *std::move(maximum);
  stack.policy = *std::move(policy);
  co_return stack;
}

net::Task<Result<>> Egress::admit(LivePtr vm, Deadline deadline) {
  if (!has_network(*vm)) co_return Result<>();
  auto stack = [this, vm] {
    return stack_for(vm->record.tenant, vm->record.id.str(), vm->record.egress);
  };
  co_return co_await services_.networks->admit(vm->record.id.str(), std::move(stack), deadline);
}

net::Task<Result<>> Egress::cut_off(LivePtr vm, Deadline deadline) {
  const std::shared_ptr<machine::Machine> machine = vm->machine;
  if (services_.networks == nullptr || !machine) co_return Result<>();
  auto nothing = [this, vm] {
    return stack_for(vm->record.tenant, vm->record.id.str(), std::string(core::kNoEgress));
  };
  const Result<> closed =
      co_await services_.networks->admit_again(vm->record.id.str(), std::move(nothing), deadline);
  if (!closed)
    services_.log.error("the rules that close a network cannot be loaded; it is removed",
                        {{"id", vm->record.id.str()}, {"error", closed.error().text()}});
  co_await dismiss(vm);
  FB_CO_TRY(co_await machine->detach_network());
  if (auto told = co_await machine->agent().set_network(false, Deadline::in(kTellDeadline)); !told)
    services_.log.warn("a guest keeps a card that leads nowhere",
                       {{"id", vm->record.id.str()}, {"error", told.error().text()}});
  co_return Result<>();
}

net::Task<void> Egress::leave_unused(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine;
  if (!machine || has_network(*vm)) co_return;
  co_await dismiss(vm);
  if (auto left = co_await machine->detach_network(); !left)
    services_.log.warn("an unused network stays",
                       {{"id", vm->record.id.str()}, {"error", left.error().text()}});
}

net::Task<void> Egress::tell_guest(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine;
  if (!machine || !has_network(*vm)) co_return;
  auto news = services_.networks->news(vm->record.id.str());
  if (news)
    (void)co_await machine->agent().set_egress_summary(*news, Deadline::in(kDismissDeadline));
}

net::Task<void> Egress::dismiss(LivePtr vm) {
  if (services_.networks != nullptr)
    co_await services_.networks->dismiss(vm->record.id.str(), Deadline::in(kDismissDeadline));
}

net::Task<Result<>> Egress::admit_build(core::TenantId tenant, std::string machine,
                                        std::string policy, Deadline deadline) {
  if (services_.networks == nullptr || policy == core::kNoEgress) co_return Result<>();
  builds_[machine] = {tenant, policy};
  auto stack = [this, tenant, machine, policy] { return stack_for(tenant, machine, policy); };
  co_return co_await services_.networks->admit(std::move(machine), std::move(stack), deadline);
}

net::Task<void> Egress::dismiss_build(std::string machine) {
  builds_.erase(machine);
  if (services_.networks != nullptr)
    co_await services_.networks->dismiss(std::move(machine), Deadline::in(kDismissDeadline));
}

net::Task<Result<>> Egress::admit_again(core::TenantId tenant, Deadline deadline) {
  if (services_.networks == nullptr) co_return Result<>();
  std::map<std::string, egress::Networks::StackSource> stacks;
  for (const LivePtr& vm : registry_.all()) {
    if (vm->record.tenant != tenant) continue;
    stacks[vm->record.id.str()] = [this, vm] {
      return stack_for(vm->record.tenant, vm->record.id.str(), vm->record.egress);
    };
  }
  for (const auto& [machine, build] : builds_) {
    if (build.tenant != tenant) continue;
    stacks[machine] = [this, machine, build] {
      return stack_for(build.tenant, machine, build.policy);
    };
  }
  Result<> first;
  for (auto& [machine, stack] : stacks) {
    auto admitted = co_await services_.networks->admit_again(machine, std::move(stack), deadline);
    if (first && !admitted) first = std::move(admitted);
  }
  co_return first;
}

}  // namespace firebreak::control
