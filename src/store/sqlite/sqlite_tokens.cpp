#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

Result<core::AccessToken> read_token(Statement& row) {
  core::AccessToken token;
  token.id = row.id<core::TokenId>();
  token.tenant = row.id<core::TenantId>();
  token.microvm = row.id<core::MicrovmId>();
  FB_TRY_ASSIGN(token.kind, decode(core::parse_token_kind, row.text()));
  FB_TRY_ASSIGN(token.ports, stored(core::parse_ports(row.text()), "list of ports"));
  token.created = row.time();
  token.expires = row.time();
  token.revoked = row.optional_time();
  return token;
}

}  // namespace

Result<> SqliteStore::create_token(const core::AccessToken& token) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(std::int64_t known,
                db_->number("SELECT count(*) FROM microvms WHERE id = ? AND tenant = ?",
                            token.microvm, token.tenant));
  if (known == 0)
    return fail(Code::not_found, Reason{"microvm_not_found"},
                "there is no microVM " + token.microvm.str());
  FB_TRY(db_->run("DELETE FROM access_tokens WHERE expires < ?", token.created));
  FB_TRY(require_added(
      db_->run("INSERT INTO access_tokens (id, tenant, microvm, kind, ports, created, expires, "
               "revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
               token.id, token.tenant, token.microvm, core::to_string(token.kind),
               core::to_text(token.ports), token.created, token.expires, token.revoked),
      "token " + token.id.str()));
  return all.commit();
}

Result<std::vector<core::AccessToken>> SqliteStore::list_tokens(
    const core::TenantId& tenant, const core::MicrovmId& microvm) const {
  return read_all(db_->query("SELECT id, tenant, microvm, kind, ports, created, expires, revoked "
                             "FROM access_tokens WHERE microvm = ? AND tenant = ? "
                             "ORDER BY created, id",
                             microvm, tenant),
                  read_token);
}

Result<> SqliteStore::revoke_token(const core::TenantId& tenant, const core::MicrovmId& microvm,
                                   const core::TokenId& id, core::Time at) {
  return require_change(db_->run("UPDATE access_tokens SET revoked = coalesce(revoked, ?) "
                                 "WHERE id = ? AND microvm = ? AND tenant = ?",
                                 at, id, microvm, tenant),
                        "token " + id.str());
}

Result<std::vector<core::AccessToken>> SqliteStore::revoked_tokens(core::Time now) const {
  return read_all(db_->query("SELECT id, tenant, microvm, kind, ports, created, expires, revoked "
                             "FROM access_tokens WHERE revoked IS NOT NULL AND expires > ? "
                             "ORDER BY expires, id",
                             now),
                  read_token);
}

}  // namespace firebreak::store
