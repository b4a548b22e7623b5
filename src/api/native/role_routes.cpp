// Routes of roles: what the short-lived credentials of microVMs and of AssumeRole may do.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"

namespace firebreak::api {
namespace {

json::object to_json(const core::TenantId& tenant, const core::Role& role) {
  json::object out{{"name", role.name},
                   {"arn", core::role_arn(tenant, role.name)},
                   {"id", role.id},
                   {"policy", core::to_json(role.policy)}};
  // The operator's have no time of their own.
  if (role.created != core::Time{}) out["createdAt"] = core::to_unix_ms(role.created);
  return out;
}

net::Task<Result<>> put_role(control::Roles& roles, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const json::object* document = reader.object("policy", true);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(core::RolePolicy policy, core::parse_role_policy(*document));
  FB_CO_TRY_ASSIGN(const control::RolePtr role,
                   co_await roles.put(call.tenant(), call.param("name"), std::move(policy)));
  co_return co_await call.reply_json(200, to_json(call.tenant(), *role));
}

}  // namespace

void NativeApi::add_role_routes() {
  control::Roles& roles = supervisor_.roles();
  router_.add({"GET", "/v1/roles", "List the roles that microVMs can have", false, Carries::nothing,
               [&roles](Call& call) -> net::Task<Result<>> {
                 json::array items;
                 for (const control::RolePtr& role : roles.list(call.tenant()))
                   items.push_back(to_json(call.tenant(), *role));
                 co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
               }});
  router_.add({"GET", "/v1/roles/{name}", "One role and its policy", false, Carries::nothing,
               [&roles](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const control::RolePtr role,
                                  roles.require(call.tenant(), call.param("name")));
                 co_return co_await call.reply_json(200, to_json(call.tenant(), *role));
               }});
  router_.add({"PUT", "/v1/roles/{name}",
               "Make or replace a role; credentials that are out have the new policy at once",
               false, Carries::nothing, [&roles](Call& call) { return put_role(roles, call); }});
  router_.add({"DELETE", "/v1/roles/{name}", "Remove a role; credentials that are out end", false,
               Carries::nothing, [&roles](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY(co_await roles.remove(call.tenant(), call.param("name")));
                 co_return co_await call.reply_json(200, json::object{});
               }});
}

}  // namespace firebreak::api
