// Routes of networks: policies, what a tenant gets at most, what a microVM was allowed and denied.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "egress/networks.h"

namespace firebreak::api {
namespace {

json::value policy_json(const core::EgressPolicy& policy) {
  return json::parse(core::to_json(policy));
}

net::Task<Result<>> put_policy(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(json::object body, co_await call.json_body());
  const std::string& name = call.param("name");
  if (const json::value* given = body.if_contains("name");
      given != nullptr && *given != json::value(name))
    co_return fail(Code::invalid, "name must be " + name + ", as in the path, or left out");
  body["name"] = name;
  FB_CO_TRY_ASSIGN(core::EgressPolicy policy, core::egress_policy_from_json(json::serialize(body)));
  FB_CO_TRY(co_await supervisor.egress().put(call.tenant(), policy, call.deadline));
  co_return co_await call.reply_json(200, policy_json(policy));
}

net::Task<Result<>> set_tenant(control::Supervisor& supervisor, control::KeyRing& keys,
                               Call& call) {
  FB_CO_TRY_ASSIGN(const core::TenantId id, core::parse_tenant_id(call.param("tenant")));
  const core::Tenant* tenant = keys.tenant(id);
  if (tenant == nullptr)
    co_return fail(Code::not_found, Reason{"tenant_not_found"}, "there is no tenant " + id.str());
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  core::EgressSettings settings = tenant->egress;
  settings.run_default = reader.string_or("default", settings.run_default);
  settings.maximum = reader.string_or("maximum", settings.maximum);
  FB_CO_TRY(reader.result());
  FB_CO_TRY(co_await supervisor.egress().set_tenant(id, settings, call.deadline));
  FB_CO_TRY(co_await keys.load());
  co_return co_await call.reply_json(
      200, json::object{{"default", settings.run_default}, {"maximum", settings.maximum}});
}

net::Task<Result<>> read_log(control::Supervisor& supervisor, Call& call) {
  const core::MicrovmId id(call.param("id"));
  FB_CO_TRY_ASSIGN(const core::Microvm microvm, co_await supervisor.get(call.tenant(), id));
  egress::Networks* networks = supervisor.services().networks;
  json::object answer{{"policy", microvm.egress}};
  if (networks == nullptr) {
    answer["decisions"] = json::array();
    co_return co_await call.reply_json(200, answer);
  }
  const std::uint64_t limit = call.number("limit").value_or(100);
  FB_CO_TRY_ASSIGN(json::object log, networks->log_json(id.str(), limit, call.flag("suggest")));
  for (auto& [key, value] : log) answer[key] = std::move(value);
  if (auto counters = co_await networks->counters(id.str())) {
    answer["bytesOut"] = counters->bytes_out;
    answer["bytesIn"] = counters->bytes_in;
    answer["deniedPackets"] = counters->denied_packets;
  }
  co_return co_await call.reply_json(200, answer);
}

}  // namespace

void NativeApi::add_egress_routes() {
  control::Supervisor& s = supervisor_;
  control::KeyRing& keys = keys_;
  router_.add({"GET", "/v1/egress-policies", "List the egress policies that can be used", false,
               Carries::nothing, [&s](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const auto all, co_await s.egress().list(call.tenant()));
                 json::array items;
                 for (const core::EgressPolicy& policy : all) items.push_back(policy_json(policy));
                 co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
               }});
  router_.add({"GET", "/v1/egress-policies/{name}", "One egress policy", false, Carries::nothing,
               [&s](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::EgressPolicy policy,
                                  co_await s.egress().find(call.tenant(), call.param("name")));
                 co_return co_await call.reply_json(200, policy_json(policy));
               }});
  router_.add({"PUT", "/v1/egress-policies/{name}",
               "Make or replace an egress policy; microVMs that have it get the new one at once",
               false, Carries::nothing, [&s](Call& call) { return put_policy(s, call); }});
  router_.add({"DELETE", "/v1/egress-policies/{name}",
               "Remove an egress policy that no microVM has", false, Carries::nothing,
               [&s](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY(co_await s.egress().remove(call.tenant(), call.param("name")));
                 co_return co_await call.reply_json(200, json::object{});
               }});
  router_.add({"PUT", "/v1/tenants/{tenant}/egress",
               "Set a tenant's default and maximum egress policy", true, Carries::nothing,
               [&s, &keys](Call& call) { return set_tenant(s, keys, call); }});
  router_.add(
      {"GET", "/v1/microvms/{id}/egress",
       "What it was allowed and denied, newest last, and the smallest policy that would have "
       "sufficed",
       false, Carries::nothing, [&s](Call& call) { return read_log(s, call); }});
}

}  // namespace firebreak::api
