#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {
namespace {

Result<core::Secret> read_secret(Statement& row) {
  core::Secret secret;
  secret.tenant = core::TenantId(row.text());
  secret.name = row.text();
  secret.sealed = row.bytes();
  secret.set = row.time();
  return secret;
}

}  // namespace

Result<> SqliteStore::put_secret(const core::Secret& secret) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(const std::int64_t others,
                db_->number("SELECT count(*) FROM secrets WHERE tenant = ? AND name <> ?",
                            secret.tenant, secret.name));
  if (std::cmp_greater_equal(others, core::kMostSecrets)) {
    return fail(Code::exhausted, Reason{"secrets"},
                "a tenant has at most " + std::to_string(core::kMostSecrets) + " secrets",
                Repair{"remove one first"});
  }
  FB_TRY(require_added(
      db_->run("INSERT INTO secrets (tenant, name, sealed, changed) VALUES (?, ?, ?, ?) "
               "ON CONFLICT (tenant, name) DO UPDATE SET sealed = excluded.sealed, "
               "changed = excluded.changed",
               secret.tenant, secret.name, Blob{secret.sealed}, secret.set),
      "secret " + secret.name));
  return all.commit();
}

Result<std::vector<core::Secret>> SqliteStore::all_secrets() const {
  return read_all(
      db_->query("SELECT tenant, name, sealed, changed FROM secrets ORDER BY tenant, name"),
      read_secret);
}

Result<> SqliteStore::remove_secret(const core::TenantId& tenant, const std::string& name) {
  return require_change(db_->run("DELETE FROM secrets WHERE tenant = ? AND name = ?", tenant, name),
                        "secret " + name);
}

}  // namespace firebreak::store
