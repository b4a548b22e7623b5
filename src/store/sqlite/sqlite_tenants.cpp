#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

constexpr std::int64_t kMaxEgressPolicies = 100;  // of a tenant

Result<core::Tenant> read_tenant(Statement& row) {
  core::Tenant tenant;
  tenant.id = row.id<core::TenantId>();
  tenant.name = row.text();
  FB_TRY_ASSIGN(tenant.limits, stored(core::limits_from_json(row.text()), "limits"));
  tenant.created = row.time();
  tenant.egress.run_default = row.text();
  tenant.egress.maximum = row.text();
  return tenant;
}

Result<core::Key> read_key(Statement& row) {
  core::Key key;
  key.id = row.id<core::KeyId>();
  key.tenant = row.id<core::TenantId>();
  key.name = row.text();
  key.sealed_secret = row.bytes();
  key.api_key_hash = row.text();
  FB_TRY_ASSIGN(key.kind, decode(core::parse_key_kind, row.text()));
  key.agent = row.text();
  key.created = row.time();
  key.revoked = row.optional_time();
  return key;
}

Result<core::EgressPolicy> read_policy(Statement& row) {
  return stored(core::egress_policy_from_json(row.text()), "egress policy");
}

}  // namespace

Result<> SqliteStore::create_tenant(const core::Tenant& tenant) {
  return require_added(
      db_->run("INSERT INTO tenants (id, name, limits, created, egress_default, egress_maximum) "
               "VALUES (?, ?, ?, ?, ?, ?)",
               tenant.id, tenant.name, core::to_json(tenant.limits), tenant.created,
               tenant.egress.run_default, tenant.egress.maximum),
      "tenant " + tenant.name);
}

Result<std::optional<core::Tenant>> SqliteStore::find_tenant(const core::TenantId& id) const {
  return read_one(db_->query("SELECT id, name, limits, created, egress_default, egress_maximum "
                             "FROM tenants WHERE id = ?",
                             id),
                  read_tenant);
}

Result<std::vector<core::Tenant>> SqliteStore::list_tenants() const {
  return read_all(db_->query("SELECT id, name, limits, created, egress_default, egress_maximum "
                             "FROM tenants ORDER BY created, id"),
                  read_tenant);
}

Result<> SqliteStore::set_limits(const core::TenantId& id, const core::TenantLimits& limits) {
  return require_change(
      db_->run("UPDATE tenants SET limits = ? WHERE id = ?", core::to_json(limits), id),
      "tenant " + id.str());
}

Result<> SqliteStore::set_egress(const core::TenantId& id, const core::EgressSettings& egress) {
  return require_change(
      db_->run("UPDATE tenants SET egress_default = ?, egress_maximum = ? WHERE id = ?",
               egress.run_default, egress.maximum, id),
      "tenant " + id.str());
}

Result<> SqliteStore::put_egress_policy(const core::TenantId& tenant,
                                        const core::EgressPolicy& policy) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(const std::int64_t others,
                db_->number("SELECT count(*) FROM egress_policies WHERE tenant = ? AND name <> ?",
                            tenant, policy.name));
  if (others >= kMaxEgressPolicies) {
    return fail(Code::exhausted,
                "a tenant has at most " + std::to_string(kMaxEgressPolicies) + " egress policies",
                Repair{"remove one first"});
  }
  FB_TRY(
      require_added(db_->run("INSERT INTO egress_policies (tenant, name, policy) VALUES (?, ?, ?) "
                             "ON CONFLICT (tenant, name) DO UPDATE SET policy = excluded.policy",
                             tenant, policy.name, core::to_json(policy)),
                    "egress policy " + policy.name));
  return all.commit();
}

Result<std::optional<core::EgressPolicy>> SqliteStore::find_egress_policy(
    const core::TenantId& tenant, const std::string& name) const {
  return read_one(
      db_->query("SELECT policy FROM egress_policies WHERE tenant = ? AND name = ?", tenant, name),
      read_policy);
}

Result<std::vector<core::EgressPolicy>> SqliteStore::list_egress_policies(
    const core::TenantId& tenant) const {
  return read_all(
      db_->query("SELECT policy FROM egress_policies WHERE tenant = ? ORDER BY name", tenant),
      read_policy);
}

Result<> SqliteStore::remove_egress_policy(const core::TenantId& tenant, const std::string& name) {
  return require_change(
      db_->run("DELETE FROM egress_policies WHERE tenant = ? AND name = ?", tenant, name),
      "egress policy " + name);
}

Result<> SqliteStore::remove_tenant(const core::TenantId& id) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(std::int64_t live, db_->number("SELECT count(*) FROM microvms WHERE tenant = ? "
                                               "AND state <> 'TERMINATED'",
                                               id));
  if (live > 0) {
    return fail(Code::conflict,
                "tenant " + id.str() + " still has " + std::to_string(live) + " microVMs",
                Repair{"terminate them first"});
  }
  // Events and client tokens go with the microVMs; keys, images and usage with the tenant.
  FB_TRY(db_->run("DELETE FROM microvms WHERE tenant = ?", id));
  FB_TRY(require_change(db_->run("DELETE FROM tenants WHERE id = ?", id), "tenant " + id.str()));
  return all.commit();
}

Result<> SqliteStore::create_key(const core::Key& key) {
  return require_added(
      db_->run("INSERT INTO keys (id, tenant, name, sealed_secret, api_key_hash, admin, kind, "
               "agent, created, revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               key.id, key.tenant, key.name, Blob{key.sealed_secret}, key.api_key_hash, key.admin(),
               core::to_string(key.kind), key.agent, key.created, key.revoked),
      "key " + key.id.str());
}

Result<std::optional<core::Key>> SqliteStore::find_key(const core::KeyId& id) const {
  return read_one(db_->query("SELECT id, tenant, name, sealed_secret, api_key_hash, kind, "
                             "agent, created, revoked FROM keys WHERE id = ?",
                             id),
                  read_key);
}

Result<std::optional<core::Key>> SqliteStore::find_key_by_hash(
    const std::string& api_key_hash) const {
  // Keys without a bearer key have the empty hash; nobody may present it.
  return read_one(db_->query("SELECT id, tenant, name, sealed_secret, api_key_hash, kind, "
                             "agent, created, revoked FROM keys "
                             "WHERE api_key_hash = ? AND api_key_hash <> ''",
                             api_key_hash),
                  read_key);
}

Result<std::vector<core::Key>> SqliteStore::list_keys(const core::TenantId& tenant) const {
  return read_all(
      db_->query("SELECT id, tenant, name, sealed_secret, api_key_hash, kind, "
                 "agent, created, revoked FROM keys WHERE tenant = ? ORDER BY created, id",
                 tenant),
      read_key);
}

Result<> SqliteStore::revoke_key(const core::TenantId& tenant, const core::KeyId& id,
                                 core::Time at) {
  return require_change(
      db_->run("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ? AND tenant = ?", at, id,
               tenant),
      "key " + id.str());
}

}  // namespace firebreak::store
