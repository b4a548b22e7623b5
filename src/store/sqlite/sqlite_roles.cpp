#include "base/json.h"
#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {
namespace {

Result<core::Role> read_role(Statement& row) {
  core::Role role;
  role.name = row.text();
  role.id = row.text();
  FB_TRY_ASSIGN(const json::object policy, stored(parse_json_object(row.text()), "role"));
  FB_TRY_ASSIGN(role.policy, stored(core::parse_role_policy(policy), "role"));
  role.created = row.time();
  return role;
}

}  // namespace

Result<core::Role> SqliteStore::put_role(const core::TenantId& tenant, const core::Role& role) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY(require_added(
      db_->run("INSERT INTO roles (tenant, name, id, policy, created) VALUES (?, ?, ?, ?, ?) "
               "ON CONFLICT (tenant, name) DO UPDATE SET policy = excluded.policy",
               tenant, role.name, role.id, json::serialize(core::to_json(role.policy)),
               role.created),
      "role " + role.name));
  FB_TRY_ASSIGN(auto put, read_one(db_->query("SELECT name, id, policy, created FROM roles "
                                              "WHERE tenant = ? AND name = ?",
                                              tenant, role.name),
                                   read_role));
  FB_TRY(all.commit());
  return *std::move(put);
}

Result<std::vector<core::Role>> SqliteStore::list_roles(const core::TenantId& tenant) const {
  return read_all(
      db_->query("SELECT name, id, policy, created FROM roles WHERE tenant = ? ORDER BY name",
                 tenant),
      read_role);
}

Result<> SqliteStore::remove_role(const core::TenantId& tenant, const std::string& name) {
  return require_change(db_->run("DELETE FROM roles WHERE tenant = ? AND name = ?", tenant, name),
                        "role " + name);
}

}  // namespace firebreak::store
