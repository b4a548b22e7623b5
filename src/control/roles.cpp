#include "control/roles.h"

#include <chrono>

#include <fmt/format.h>

namespace firebreak::control {
namespace {

// The one name under which a guest finds its credentials, whatever its role is called.
constexpr const char* kGuestRole = "execution_role";
constexpr const char* kDefaultRegion = "local-1";
constexpr std::size_t kMaxRoles = 1000;

// "2026-01-31T23:59:59Z"
std::string iso_seconds(core::Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

// The same after every start, so that credentials outlive the server.
std::string common_id(const std::string& name) {
  std::string id = "AROA" + wire::sha256_hex(name).substr(0, 17);
  for (char& c : id) c = static_cast<char>(std::toupper(c));
  return id;
}

// The region of the request that ran it, where that had one.
std::string region_of(const core::Microvm& microvm) {
  const auto config = parse_json_object(microvm.config.empty() ? "{}" : microvm.config);
  const json::value* region = config ? config->if_contains("region") : nullptr;
  return region != nullptr && region->is_string() ? std::string(region->as_string())
                                                  : kDefaultRegion;
}

Error no_role(const std::string& name) {
  return fail(Code::not_found, Reason{"role_not_found"}, "there is no role " + name,
              Repair{"firebreak role ls shows those there are"})
      .error();
}

}  // namespace

void Roles::set_common(const std::map<std::string, core::RolePolicy>& policies) {
  for (const auto& [name, policy] : policies)
    common_[name] =
        std::make_shared<const core::Role>(core::Role{name, common_id(name), policy, {}});
}

net::Task<Result<>> Roles::load() {
  using Stored = std::vector<std::pair<core::TenantId, std::vector<core::Role>>>;
  FB_CO_TRY_ASSIGN(const Stored stored,
                   co_await db_.run([](const store::Store& store) -> Result<Stored> {
                     FB_TRY_ASSIGN(const auto tenants, store.list_tenants());
                     Stored all;
                     for (const core::Tenant& tenant : tenants) {
                       FB_TRY_ASSIGN(auto roles, store.list_roles(tenant.id));
                       all.emplace_back(tenant.id, std::move(roles));
                     }
                     return all;
                   }));
  for (const auto& [tenant, roles] : stored) {
    for (const core::Role& role : roles)
      own_[{tenant, role.name}] = std::make_shared<const core::Role>(role);
  }
  co_return Result<>();
}

RolePtr Roles::find(const core::TenantId& tenant, const std::string& name) const {
  if (const auto own = own_.find({tenant, name}); own != own_.end()) return own->second;
  const auto common = common_.find(name);
  return common == common_.end() ? nullptr : common->second;
}

Result<RolePtr> Roles::require(const core::TenantId& tenant, const std::string& name) const {
  if (RolePtr role = find(tenant, name)) return role;
  return std::unexpected(no_role(name));
}

std::vector<RolePtr> Roles::list(const core::TenantId& tenant) const {
  std::map<std::string, RolePtr> all = common_;
  for (auto at = own_.lower_bound({tenant, ""}); at != own_.end() && at->first.first == tenant;
       ++at)
    all[at->first.second] = at->second;
  std::vector<RolePtr> list;
  for (auto& [name, role] : all) list.push_back(std::move(role));
  return list;
}

net::Task<Result<RolePtr>> Roles::put(core::TenantId tenant, std::string name,
                                      core::RolePolicy policy) {
  FB_CO_TRY(core::check_role_name(name));
  if (!own_.contains({tenant, name}) && list(tenant).size() >= common_.size() + kMaxRoles)
    co_return std::unexpected(core::limit_reached(
        "roles", 1000, 1000, "a tenant has at most 1000 roles", Repair{"remove one first"}));
  const core::Role wanted{name, core::new_role_id(), std::move(policy), clock_.now()};
  FB_CO_TRY_ASSIGN(core::Role stored, co_await db_.run([&](store::Store& store) {
    return store.put_role(tenant, wanted);
  }));
  auto role = std::make_shared<const core::Role>(std::move(stored));
  own_[{tenant, name}] = role;
  co_return role;
}

net::Task<Result<>> Roles::remove(core::TenantId tenant, std::string name) {
  if (!own_.contains({tenant, name})) {
    if (common_.contains(name))
      co_return fail(Code::conflict, "the role " + name + " is the operator's",
                     Repair{"it is in the configuration"});
    co_return std::unexpected(no_role(name));
  }
  FB_CO_TRY(co_await db_.run([&](store::Store& store) { return store.remove_role(tenant, name); }));
  own_.erase({tenant, name});
  co_return Result<>();
}

Result<RolePtr> Roles::admit(const Caller& caller) const {
  const auto ended = [] { return fail(Code::denied, "the session has ended"); };
  if (!caller.session) return fail(Code::internal, "the caller has no role");
  const RoleSession& session = *caller.session;
  RolePtr role = find(caller.tenant.id, session.role);
  if (!role || role->id != session.role_id) return ended();
  if (session.microvm.empty()) return role;
  const LivePtr vm = live_.find(caller.tenant.id, session.microvm);
  if (!vm || (vm->state() == core::MicrovmState::terminating && !vm->in_last_hook()))
    return ended();
  return role;
}

json::object Roles::metadata(LiveMicrovm& vm) const {
  json::object metadata{{"instance_id", vm.record().id.str()},
                        {"region", region_of(vm.record())},
                        {"account", vm.record().tenant.str()}};
  if (vm.record().role.empty() || keys_ == nullptr) return metadata;
  const RolePtr role = find(vm.record().tenant, vm.record().role);
  const core::Time now = clock_.now();
  vm.set_refresh_at(now + life_ / 2);
  // Removed while the microVM lives: it finds none, as one without a role.
  if (!role) return metadata;
  const RoleSession session{role->name, role->id, vm.record().id.str(), vm.record().id};
  auto key = keys_->issue_session(vm.record().tenant, {}, session, life_);
  if (!key) {
    log_.error("no credentials", {{"id", vm.record().id.str()}, {"error", key.error().text()}});
    return metadata;
  }
  metadata["role"] = kGuestRole;
  metadata["credentials"] =
      json::serialize(json::object{{"Code", "Success"},
                                   {"LastUpdated", iso_seconds(now)},
                                   {"Type", "AWS-HMAC"},
                                   {"AccessKeyId", key->access_key_id},
                                   {"SecretAccessKey", key->secret_access_key},
                                   {"Token", key->token},
                                   {"Expiration", iso_seconds(key->expires)}});
  return metadata;
}

}  // namespace firebreak::control
