// Roles of tenants as requests are checked against them, and the credentials that microVMs get of
// them. All in memory, every change through the store first, so what a role no longer allows is
// refused by the next request. Owned by the Supervisor; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/key_ring.h"
#include "control/live_microvms.h"
#include "core/role.h"
#include "obs/log.h"

namespace firebreak::control {

using RolePtr = std::shared_ptr<const core::Role>;

class Roles {
 public:
  // `life` of the credentials; without `keys` guests get none.
  Roles(store::Database& db, const core::Clock& clock, obs::Log& log, const LiveMicrovms& live,
        const KeyRing* keys, core::Seconds life)
      : db_(db), clock_(clock), log_(log), live_(live), keys_(keys), life_(life) {}

  // Roles of the operator, for all tenants: those of the configuration.
  void set_common(const std::map<std::string, core::RolePolicy>& policies);
  net::Task<Result<>> load();

  // A tenant's own, then the operator's; nullptr when there is none.
  RolePtr find(const core::TenantId& tenant, const std::string& name) const;
  // Code::not_found, with the repair.
  Result<RolePtr> require(const core::TenantId& tenant, const std::string& name) const;
  std::vector<RolePtr> list(const core::TenantId& tenant) const;
  // The tenant's own; credentials that are out have the new policy at once.
  net::Task<Result<RolePtr>> put(core::TenantId tenant, std::string name, core::RolePolicy policy);
  // Credentials that are out end.
  net::Task<Result<>> remove(core::TenantId tenant, std::string name);

  // The role of a caller with short-lived credentials. Code::denied when they have ended: the role
  // is gone, or the microVM they were made for.
  Result<RolePtr> admit(const Caller& caller) const;

  // What the guest of a microVM reads about itself: its id, and fresh credentials of its role. Sets
  // when they have to be replaced.
  json::object metadata(LiveMicrovm& vm) const;

 private:
  store::Database& db_;
  const core::Clock& clock_;
  obs::Log& log_;
  const LiveMicrovms& live_;
  const KeyRing* keys_;
  core::Seconds life_;
  std::map<std::string, RolePtr> common_;
  std::map<std::pair<core::TenantId, std::string>, RolePtr> own_;
};

}  // namespace firebreak::control
