#include "control/key_ring.h"

#include <cstring>

#include "base/json.h"
#include "base/sys.h"
#include "core/sandbox.h"

namespace firebreak::control {
namespace {

Error unknown_key() {
  return fail(Code::unauthenticated, "the API key is missing, wrong or revoked",
              Repair{"pass one as 'Authorization: Bearer KEY'"})
      .error();
}

Error unknown_access_key() {
  return {Code::unauthenticated, "the access key is not known or was revoked", {}};
}

}  // namespace

net::Task<Result<>> KeyRing::load() {
  FB_CO_TRY_ASSIGN(const auto tenants, co_await db_.run([](const store::Store& store) {
    return store.list_tenants();
  }));
  for (const core::Tenant& tenant : tenants) {
    tenants_[tenant.id] = tenant;
    const core::TenantId id = tenant.id;
    FB_CO_TRY_ASSIGN(const auto keys, co_await db_.run([&id](const store::Store& store) {
      return store.list_keys(id);
    }));
    for (const core::Key& key : keys) {
      keys_[key.id] = key;
      by_hash_[key.api_key_hash] = key.id;
    }
  }
  co_return Result<>();
}

Result<Caller> KeyRing::authenticate(std::string_view api_key) const {
  auto at = by_hash_.find(wire::sha256_hex(api_key));
  if (at == by_hash_.end()) return std::unexpected(unknown_key());
  const core::Key& key = keys_.at(at->second);
  if (key.revoked) return std::unexpected(unknown_key());
  return Caller{tenants_.at(key.tenant), key, {}};
}

Result<KeyRing::Signer> KeyRing::signer(const std::string& access_key_id,
                                        const std::string& token) const {
  if (!token.empty()) return session_signer(access_key_id, token);
  auto at = keys_.find(core::KeyId(access_key_id));
  if (at == keys_.end() || at->second.revoked) return std::unexpected(unknown_access_key());
  const core::KeyKind kind = at->second.kind;
  if (kind != core::KeyKind::owner && kind != core::KeyKind::administrator)
    return fail(Code::denied,
                "a key of the kind " + std::string(core::to_string(kind)) +
                    " signs no requests; it is for /v1 only",
                Repair{"use an owner's key"});
  FB_TRY_ASSIGN(std::string secret, wire::unseal(master_, at->second.sealed_secret, access_key_id));
  return Signer{{tenants_.at(at->second.tenant), at->second, {}}, std::move(secret)};
}

Result<KeyRing::Signer> KeyRing::session_signer(const std::string& access_key_id,
                                                const std::string& token) const {
  const auto sealed = wire::from_base64(token);
  auto text = sealed ? wire::unseal(master_, *sealed, access_key_id)
                     : std::unexpected(unknown_access_key());
  if (!text) return std::unexpected(unknown_access_key());
  FB_TRY_ASSIGN(const json::object object, parse_json_object(*text));
  JsonReader reader(object);
  const core::TenantId tenant(reader.string("tenant"));
  const core::KeyId parent(reader.string("key"));
  std::string secret = reader.string("secret");
  RoleSession session{.role = reader.string("role"),
                      .role_id = reader.string("roleId"),
                      .name = reader.string("name"),
                      .microvm = core::MicrovmId(reader.string("microvm"))};
  const core::Time expires = core::from_unix_ms(reader.i64("expires"));
  FB_TRY(reader.result());
  const auto owner = tenants_.find(tenant);
  const auto key = keys_.find(parent);
  const bool key_works = key != keys_.end() && !key->second.revoked && key->second.tenant == tenant;
  const bool made_by = parent.empty() ? !session.microvm.empty() : key_works;
  if (owner == tenants_.end() || !made_by || clock_.now() >= expires)
    return fail(Code::denied, "the session has ended");
  return Signer{{owner->second, parent.empty() ? core::Key{} : key->second, std::move(session)},
                std::move(secret)};
}

Result<SessionKey> KeyRing::issue_session(const core::TenantId& tenant, const core::KeyId& key,
                                          const RoleSession& session, core::Seconds life) const {
  SessionKey issued{.access_key_id = "ASIA" + wire::random_base32(16),
                    .secret_access_key = wire::random_base64url(30),
                    .token = {},
                    .expires = clock_.now() + life};
  const json::object text{{"tenant", tenant.str()},
                          {"key", key.str()},
                          {"secret", issued.secret_access_key},
                          {"role", session.role},
                          {"roleId", session.role_id},
                          {"name", session.name},
                          {"microvm", session.microvm.str()},
                          {"expires", core::to_unix_ms(issued.expires)}};
  FB_TRY_ASSIGN(const std::string sealed,
                wire::seal(master_, json::serialize(text), issued.access_key_id));
  issued.token = wire::base64(sealed);
  return issued;
}

const core::Tenant* KeyRing::tenant(const core::TenantId& id) const {
  auto at = tenants_.find(id);
  return at == tenants_.end() ? nullptr : &at->second;
}

std::vector<core::Tenant> KeyRing::tenants() const {
  std::vector<core::Tenant> list;
  for (const auto& [id, tenant] : tenants_) {
    if (id != core::kSystemTenant) list.push_back(tenant);
  }
  return list;
}

net::Task<Result<core::Tenant>> KeyRing::create_tenant(std::string name,
                                                       core::TenantLimits limits) {
  FB_CO_TRY(core::check_image_name(name));
  const core::Tenant tenant{core::new_tenant_id(), std::move(name), limits, clock_.now()};
  FB_CO_TRY(
      co_await db_.run([&tenant](store::Store& store) { return store.create_tenant(tenant); }));
  tenants_[tenant.id] = tenant;
  co_return tenant;
}

net::Task<Result<>> KeyRing::remove_tenant(core::TenantId id) {
  FB_CO_TRY(co_await db_.run([&id](store::Store& store) { return store.remove_tenant(id); }));
  tenants_.erase(id);
  std::erase_if(keys_, [&id](const auto& entry) { return entry.second.tenant == id; });
  std::erase_if(by_hash_, [this](const auto& entry) { return !keys_.contains(entry.second); });
  co_return Result<>();
}

net::Task<Result<core::Tenant>> KeyRing::set_limits(core::TenantId id, core::TenantLimits limits) {
  FB_CO_TRY(co_await db_.run([&](store::Store& store) { return store.set_limits(id, limits); }));
  tenants_[id].limits = limits;
  co_return tenants_[id];
}

std::vector<core::Key> KeyRing::keys(const core::TenantId& tenant) const {
  std::vector<core::Key> list;
  for (const auto& [id, key] : keys_) {
    if (key.tenant == tenant) list.push_back(key);
  }
  return list;
}

net::Task<Result<IssuedKey>> KeyRing::issue(core::TenantId tenant, std::string name,
                                            core::KeyKind kind, std::string agent) {
  if ((kind == core::KeyKind::agent) != !agent.empty())
    co_return fail(Code::invalid, "an agent's key names its agent, and no other key names one",
                   Repair{"pass kind agent together with agentId"});
  if (!agent.empty()) FB_CO_TRY(core::check_agent_name("agentId", agent));
  if (!tenants_.contains(tenant))
    co_return fail(Code::not_found, Reason{"tenant_not_found"},
                   "there is no tenant " + tenant.str());
  IssuedKey issued;
  issued.secret_access_key = wire::random_base64url(30);
  issued.api_key = "fb_" + wire::random_base64url(32);
  core::Key& key = issued.key;
  key.id = core::KeyId("AKIA" + wire::random_base32(16));
  key.tenant = tenant;
  key.name = std::move(name);
  key.kind = kind;
  key.agent = std::move(agent);
  key.created = clock_.now();
  key.api_key_hash = wire::sha256_hex(issued.api_key);
  FB_CO_TRY_ASSIGN(key.sealed_secret, wire::seal(master_, issued.secret_access_key, key.id.str()));
  FB_CO_TRY(co_await db_.run([&key](store::Store& store) { return store.create_key(key); }));
  keys_[key.id] = key;
  by_hash_[key.api_key_hash] = key.id;
  co_return issued;
}

net::Task<Result<>> KeyRing::revoke(core::TenantId tenant, core::KeyId id) {
  const core::Time now = clock_.now();
  FB_CO_TRY(
      co_await db_.run([&](store::Store& store) { return store.revoke_key(tenant, id, now); }));
  if (auto at = keys_.find(id); at != keys_.end() && !at->second.revoked) at->second.revoked = now;
  co_return Result<>();
}

Result<wire::SealingKey> load_master_key(const std::string& path) {
  wire::SealingKey key{};
  if (!sys::exists(path)) {
    std::string fresh(key.size(), '\0');
    sys::random_bytes(std::as_writable_bytes(std::span(fresh)));
    FB_TRY(sys::replace_file(path, fresh, 0600));
  }
  FB_TRY_ASSIGN(const std::string bytes, sys::read_file(path));
  if (bytes.size() != key.size()) {
    return fail(Code::corrupt, "the key file " + path + " is damaged",
                Repair{"restore it from a backup, or remove it and issue "
                       "new keys"});
  }
  std::memcpy(key.data(), bytes.data(), key.size());
  return key;
}

}  // namespace firebreak::control
