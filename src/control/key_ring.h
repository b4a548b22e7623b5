// Tenants and their keys, as requests are checked against them: all in memory, every change through
// the store first, so a revoked key is refused by the next request. Owned by the program; one
// executor.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/model.h"
#include "store/database.h"
#include "wire/crypto.h"

namespace firebreak::control {

// A new key's secrets: shown once, then only their traces are kept.
struct IssuedKey {
  core::Key key;
  std::string secret_access_key;
  std::string api_key;
};

// The role, and perhaps the microVM, that short-lived credentials stand for.
struct RoleSession {
  std::string role;  // name
  std::string role_id;
  std::string name;         // chosen by the caller of AssumeRole; of a microVM its id
  core::MicrovmId microvm;  // they work as long as it lives; empty: made with a key
  friend bool operator==(const RoleSession&, const RoleSession&) = default;
};

struct Caller {
  core::Tenant tenant;
  core::Key key;                       // also the one a session was made with; of a microVM none
  std::optional<RoleSession> session;  // may only do what its role allows
};

// Credentials with an end. Nothing about them is stored: the token says all, sealed.
struct SessionKey {
  std::string access_key_id;
  std::string secret_access_key;
  std::string token;
  core::Time expires{};
};

class KeyRing {
 public:
  KeyRing(store::Database& db, const core::Clock& clock, wire::SealingKey master)
      : db_(db), clock_(clock), master_(master) {}

  net::Task<Result<>> load();

  // By bearer key; Code::unauthenticated without saying which part was wrong.
  Result<Caller> authenticate(std::string_view api_key) const;
  // For SigV4: the secret of an access key that is not revoked, and an owner's or administrator's.
  struct Signer {
    Caller caller;
    std::string secret;
  };
  // With a session token: short-lived ones. Code::denied when those have ended, or the key that
  // made them was revoked. Whether role and microVM still are is for Roles::admit to say.
  Result<Signer> signer(const std::string& access_key_id, const std::string& token = {}) const;
  // `key` made them; empty for those of a microVM.
  Result<SessionKey> issue_session(const core::TenantId& tenant, const core::KeyId& key,
                                   const RoleSession& session, core::Seconds life) const;

  const core::Tenant* tenant(const core::TenantId& id) const;
  std::vector<core::Tenant> tenants() const;
  net::Task<Result<core::Tenant>> create_tenant(std::string name, core::TenantLimits limits);
  net::Task<Result<>> remove_tenant(core::TenantId id);
  net::Task<Result<core::Tenant>> set_limits(core::TenantId id, core::TenantLimits limits);
  std::vector<core::Key> keys(const core::TenantId& tenant) const;
  // `agent`: of an agent's key, and of no other.
  net::Task<Result<IssuedKey>> issue(core::TenantId tenant, std::string name,
                                     core::KeyKind kind = core::KeyKind::owner,
                                     std::string agent = {});
  net::Task<Result<>> revoke(core::TenantId tenant, core::KeyId id);

 private:
  Result<Signer> session_signer(const std::string& access_key_id, const std::string& token) const;

  store::Database& db_;
  const core::Clock& clock_;
  wire::SealingKey master_;
  std::map<core::TenantId, core::Tenant> tenants_;
  std::map<core::KeyId, core::Key> keys_;
  std::map<std::string, core::KeyId> by_hash_;
};

// The server's key file: 32 random bytes, made on first use with mode 0600.
Result<wire::SealingKey> load_master_key(const std::string& path);

}  // namespace firebreak::control
