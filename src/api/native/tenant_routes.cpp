// Routes of tenants, keys and limits.
#include <algorithm>
#include <array>

#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "control/retention.h"

namespace firebreak::api {
namespace {

json::object to_json(const core::Tenant& tenant) {
  return {{"accountId", tenant.id.str()},
          {"name", tenant.name},
          {"egress", json::object{{"default", tenant.egress.run_default},
                                  {"maximum", tenant.egress.maximum}}},
          {"limits", json::parse(core::to_json(tenant.limits))},
          {"createdAt", core::to_unix_ms(tenant.created)}};
}

// Never the secrets: those are shown once, by the call that makes them.
json::object to_json(const core::Key& key) {
  return {{"accessKeyId", key.id.str()},
          {"name", key.name},
          {"admin", key.admin()},
          {"kind", core::to_string(key.kind)},
          {"agentId", key.agent.empty() ? json::value(nullptr) : json::value(key.agent)},
          {"createdAt", core::to_unix_ms(key.created)},
          {"revokedAt",
           key.revoked ? json::value(core::to_unix_ms(*key.revoked)) : json::value(nullptr)}};
}

json::object to_json(const control::IssuedKey& issued) {
  json::object object = to_json(issued.key);
  object["accountId"] = issued.key.tenant.str();
  object["secretAccessKey"] = issued.secret_access_key;
  object["apiKey"] = issued.api_key;
  return object;
}

net::Task<Result<>> create_tenant(control::KeyRing& keys, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::string name = reader.string("name");
  const json::object* limits = reader.object("limits", false);
  FB_CO_TRY(reader.result());
  core::TenantLimits set;
  if (limits != nullptr) {
    FB_CO_TRY_ASSIGN(set, core::limits_from_json(json::serialize(*limits)));
  }
  FB_CO_TRY_ASSIGN(const core::Tenant tenant, co_await keys.create_tenant(name, set));
  FB_CO_TRY_ASSIGN(const control::IssuedKey key, co_await keys.issue(tenant.id, "first"));
  json::object answer = to_json(tenant);
  answer["key"] = to_json(key);
  co_return co_await call.reply_json(201, answer);
}

Result<core::TenantId> tenant_of(const control::KeyRing& keys, const Call& call) {
  FB_TRY_ASSIGN(core::TenantId id, core::parse_tenant_id(call.param("tenant")));
  if (id == core::kSystemTenant || keys.tenant(id) == nullptr)
    return fail(Code::not_found, Reason{"tenant_not_found"}, "there is no tenant " + id.str());
  return id;
}

// Whose keys a call is about: the caller's own, or those of ?tenant.
Result<core::TenantId> owner_of_keys(const control::KeyRing& keys, const Call& call) {
  if (!call.target.has_query("tenant")) return call.tenant();
  if (!call.caller.key.admin())
    return fail(Code::denied, "keys of other tenants need an administrator's key");
  FB_TRY_ASSIGN(core::TenantId id, core::parse_tenant_id(call.query("tenant")));
  if (id == core::kSystemTenant || keys.tenant(id) == nullptr)
    return fail(Code::not_found, Reason{"tenant_not_found"}, "there is no tenant " + id.str());
  return id;
}

net::Task<Result<>> issue_key(control::KeyRing& keys, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::string name = reader.string_or("name", "");
  const bool admin = reader.boolean_or("admin", false);
  const auto kind =
      core::parse_key_kind(reader.string_or("kind", admin ? "administrator" : "owner"));
  const std::string agent = reader.string_or("agentId", "");
  if (!kind) reader.reject("kind", "must be owner, agent, approver, auditor or administrator");
  core::TenantId tenant = call.tenant();
  if (reader.has("tenant")) tenant = core::TenantId(reader.string("tenant"));
  FB_CO_TRY(reader.result());
  const bool makes_admin = kind == core::KeyKind::administrator;
  if ((makes_admin || tenant != call.tenant()) && !call.caller.key.admin())
    co_return fail(Code::denied,
                   "only an administrator's key makes keys for others, or administrators");
  FB_CO_TRY_ASSIGN(const control::IssuedKey key, co_await keys.issue(tenant, name, *kind, agent));
  co_return co_await call.reply_json(201, to_json(key));
}

}  // namespace

void NativeApi::add_tenant_routes() {
  control::KeyRing& keys = keys_;
  router_.add({"GET", "/v1/tenants", "List tenants", true, Carries::nothing,
               [&keys](Call& call) -> net::Task<Result<>> {
                 json::array items;
                 for (const core::Tenant& tenant : keys.tenants()) items.push_back(to_json(tenant));
                 co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
               }});
  router_.add({"POST", "/v1/tenants", "Make a tenant and its first key", true, Carries::nothing,
               [&keys](Call& call) { return create_tenant(keys, call); }});
  router_.add({"DELETE", "/v1/tenants/{tenant}", "Remove a tenant without live microVMs", true,
               Carries::nothing, [this, &keys](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::TenantId id, tenant_of(keys, call));
                 if (id == call.tenant())
                   co_return fail(Code::conflict, "a tenant cannot remove itself");
                 FB_CO_TRY(co_await keys.remove_tenant(id));
                 FB_CO_TRY(co_await builds_.forget(id));
                 FB_CO_TRY(
                     co_await control::forget_app_logs(supervisor_.services(), supervisor_.live()));
                 co_return co_await call.reply_json(200, json::object{});
               }});
  router_.add({"PUT", "/v1/tenants/{tenant}/limits", "Set limits of a tenant; those not named stay",
               true, Carries::nothing, [&keys](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::TenantId id, tenant_of(keys, call));
                 FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
                 FB_CO_TRY_ASSIGN(
                     const core::TenantLimits limits,
                     core::limits_from_json(json::serialize(body), keys.tenant(id)->limits));
                 FB_CO_TRY_ASSIGN(const core::Tenant tenant, co_await keys.set_limits(id, limits));
                 co_return co_await call.reply_json(200, to_json(tenant));
               }});
  router_.add({"GET", "/v1/tenant", "The caller's own tenant and limits", false, Carries::nothing,
               [&keys](Call& call) -> net::Task<Result<>> {
                 co_return co_await call.reply_json(200, to_json(*keys.tenant(call.tenant())));
               }});
  router_.add({"GET", "/v1/keys", "List the caller's keys, or a tenant's", false, Carries::nothing,
               [&keys](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::TenantId owner, owner_of_keys(keys, call));
                 json::array items;
                 for (const core::Key& key : keys.keys(owner)) items.push_back(to_json(key));
                 co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
               }});
  router_.add({"POST", "/v1/keys", "Make a key; its secrets are in the answer and nowhere else",
               false, Carries::nothing, [&keys](Call& call) { return issue_key(keys, call); }});
  router_.add({"DELETE", "/v1/keys/{key}", "Revoke a key, at once", false, Carries::nothing,
               [&keys](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::TenantId owner, owner_of_keys(keys, call));
                 FB_CO_TRY(co_await keys.revoke(owner, core::KeyId(call.param("key"))));
                 co_return co_await call.reply_json(200, json::object{});
               }});
}

}  // namespace firebreak::api
