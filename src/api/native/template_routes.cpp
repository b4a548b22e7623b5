// Routes of templates, sandbox policies, caps and records of calls.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "api/native/sandbox_json.h"
#include "base/text.h"
#include "session/call_output.h"
#include "wire/compress.h"

namespace firebreak::api {
namespace {

using Db = store::Database;

net::Task<Result<core::SandboxTemplate>> find_template(Db& db, const Call& call) {
  const core::TenantId& tenant = call.tenant();
  const std::string name = call.param("template");
  FB_CO_TRY_ASSIGN(const auto found, co_await db.run([&](const store::Store& store) {
    return store.find_template(tenant, name);
  }));
  if (!found)
    co_return fail(Code::not_found, "there is no template " + name,
                   Repair{"`firebreak template ls` lists yours"});
  co_return *found;
}

net::Task<Result<>> put_template(Db& db, Call& call, core::SandboxTemplate value, int status) {
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY(
      co_await db.run([&](store::Store& store) { return store.put_template(tenant, value); }));
  co_return co_await call.reply_json(status, core::to_json(value));
}

net::Task<Result<>> create_template(Db& db, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(core::SandboxTemplate value, core::template_from_json(body));
  co_return co_await put_template(db, call, std::move(value), 201);
}

net::Task<Result<>> change_template(Db& db, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(const core::SandboxTemplate known, co_await find_template(db, call));
  FB_CO_TRY_ASSIGN(core::SandboxTemplate value, core::template_from_json(body, known));
  if (value.name != known.name)
    co_return fail(Code::invalid, "a template keeps its name", Repair{"make another"});
  co_return co_await put_template(db, call, std::move(value), 200);
}

net::Task<Result<>> list_templates(Db& db, Call& call) {
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY_ASSIGN(const auto all, co_await db.run([&](const store::Store& store) {
    return store.list_templates(tenant);
  }));
  json::array items;
  for (const core::SandboxTemplate& each : all) items.push_back(core::to_json(each));
  co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
}

net::Task<Result<>> change_policy(control::KeyRing& keys, Db& db, Call& call) {
  FB_CO_TRY_ASSIGN(const core::TenantId tenant, core::parse_tenant_id(call.param("tenant")));
  if (tenant == core::kSystemTenant || keys.tenant(tenant) == nullptr)
    co_return fail(Code::not_found, "there is no tenant " + tenant.str());
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(const auto policy,
                   co_await db.run([&](store::Store& store) -> Result<core::SandboxPolicy> {
                     FB_TRY_ASSIGN(const auto now, store.sandbox_policy(tenant));
                     FB_TRY_ASSIGN(const auto next, core::policy_from_json(body, now));
                     FB_TRY(store.set_sandbox_policy(tenant, next));
                     return next;
                   }));
  co_return co_await call.reply_json(200, core::to_json(policy));
}

net::Task<Result<>> show_policy(Db& db, Call& call) {
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY_ASSIGN(const auto policy, co_await db.run([&](const store::Store& store) {
    return store.sandbox_policy(tenant);
  }));
  co_return co_await call.reply_json(200, core::to_json(policy));
}

// What is used of each cap in the hour or day that runs now.
net::Task<Result<>> show_caps(Db& db, const core::Clock& clock, Call& call) {
  const core::Time now = clock.now();
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY_ASSIGN(const auto counts, co_await db.run([&](const store::Store& store) {
    return store.cap_counts(tenant, core::begin_of(core::Window::day, now));
  }));
  json::array items;
  for (const core::CapRule& rule : core::cap_rules()) {
    const auto& cap = call.caller.tenant.limits.caps[rule.dimension];
    json::array used;
    for (const store::CapCount& count : counts) {
      if (count.dimension != rule.dimension || count.begin != core::begin_of(rule.window, now))
        continue;
      used.push_back(json::object{
          {"agentId", count.subject.empty() ? json::value(nullptr) : json::value(count.subject)},
          {"count", count.count}});
    }
    items.push_back(json::object{{"dimension", rule.name},
                                 {"about", rule.about},
                                 {"cap", cap ? json::value(*cap) : json::value(nullptr)},
                                 {"used", std::move(used)},
                                 {"resetsAt", utc_text(core::end_of(rule.window, now))}});
  }
  co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
}

// --- records

net::Task<Result<>> list_invocations(Db& db, Call& call) {
  store::InvocationFilter filter;
  if (call.target.has_query("agentId")) filter.agent = call.query("agentId");
  if (call.target.has_query("session")) filter.session = core::SessionId(call.query("session"));
  if (call.target.has_query("status")) {
    filter.status = core::parse_exit_status(call.query("status"));
    if (!filter.status)
      co_return fail(Code::invalid, "there is no exit status " + call.query("status"),
                     Repair{"use ok, error, timeout, oom, cap_exceeded or provisioning"});
  }
  std::optional<core::InvocationId> after;
  if (call.target.has_query("after")) after = core::InvocationId(call.query("after"));
  std::uint64_t limit = 100;
  if (call.target.has_query("limit")) limit = parse_u64(call.query("limit")).value_or(0);
  if (limit == 0 || limit > 1000) co_return fail(Code::invalid, "limit must be 1 to 1000");
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY_ASSIGN(const auto found, co_await db.run([&](const store::Store& store) {
    return store.list_invocations(tenant, filter, after, static_cast<std::uint32_t>(limit));
  }));
  json::array items;
  for (const core::Invocation& each : found) items.push_back(to_json(each));
  json::object answer{{"items", std::move(items)}};
  if (found.size() == limit) answer["next"] = found.back().id.str();
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<core::Invocation>> find_invocation(Db& db, const Call& call) {
  const core::TenantId& tenant = call.tenant();
  const core::InvocationId id(call.param("invocation"));
  FB_CO_TRY_ASSIGN(const auto found, co_await db.run([&](const store::Store& store) {
    return store.find_invocation(tenant, id);
  }));
  if (!found) co_return fail(Code::not_found, "there is no invocation " + id.str());
  co_return *found;
}

net::Task<Result<>> show_output(Db& db, net::asio::thread_pool& pool, Call& call) {
  FB_CO_TRY_ASSIGN(const core::Invocation record, co_await find_invocation(db, call));
  FB_CO_TRY_ASSIGN(const auto kept, co_await db.run([&](const store::Store& store) {
    return store.invocation_output(record.tenant, record.id);
  }));
  if (!kept && record.stdout_bytes + record.stderr_bytes > 0)
    co_return fail(Code::not_found, "what this call printed was not kept; its hashes were",
                   Repair{"keepOutput of the tenant's policy says whether it is"});
  using Both = std::pair<std::string, std::string>;
  FB_CO_TRY_ASSIGN(const Both both, co_await net::run_blocking(pool, [&]() -> Result<Both> {
                     Both texts;
                     if (!kept) return texts;
                     constexpr auto kMost = session::PrintedStream::kMostKept;
                     FB_TRY_ASSIGN(texts.first, wire::expand(kept->out, kMost));
                     FB_TRY_ASSIGN(texts.second, wire::expand(kept->err, kMost));
                     return texts;
                   }));
  json::object answer{{"invocation_id", record.id.str()}, {"session_id", record.session.str()}};
  put_bytes(answer, "stdout", both.first);
  put_bytes(answer, "stderr", both.second);
  co_return co_await call.reply_json(200, answer);
}

}  // namespace

void NativeApi::add_template_routes() {
  Db& db = supervisor_.services().db;
  const core::Clock& clock = supervisor_.services().clock;
  router_.add({"POST", "/v1/templates", "Make or replace a template of sessions", false,
               Carries::nothing, [&db](Call& call) { return create_template(db, call); }});
  router_.add({"GET", "/v1/templates", "List templates", false, Carries::nothing,
               [&db](Call& call) { return list_templates(db, call); }});
  router_.add({"GET", "/v1/templates/{template}", "One template", false, Carries::nothing,
               [&db](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const auto found, co_await find_template(db, call));
                 co_return co_await call.reply_json(200, core::to_json(found));
               }});
  router_.add({"PATCH", "/v1/templates/{template}", "Change what is named of a template", false,
               Carries::nothing, [&db](Call& call) { return change_template(db, call); }});
  router_.add({"DELETE", "/v1/templates/{template}", "Remove a template; its sessions go on", false,
               Carries::nothing, [&db](Call& call) -> net::Task<Result<>> {
                 const core::TenantId tenant = call.tenant();
                 const std::string name = call.param("template");
                 FB_CO_TRY(co_await db.run(
                     [&](store::Store& store) { return store.remove_template(tenant, name); }));
                 co_return co_await call.reply_json(200, json::object{});
               }});
  router_.add({"GET", "/v1/policy", "The sandbox policy of the caller's tenant", false,
               Carries::nothing, [&db](Call& call) { return show_policy(db, call); }});
  router_.add({"PATCH", "/v1/tenants/{tenant}/policy",
               "Change what is named of a tenant's sandbox policy", true, Carries::nothing,
               [&keys = keys_, &db](Call& call) { return change_policy(keys, db, call); }});
  router_.add({"GET", "/v1/caps", "Caps of the caller's tenant, and what is used of them now",
               false, Carries::nothing,
               [&db, &clock](Call& call) { return show_caps(db, clock, call); }});
  router_.add({"GET", "/v1/invocations",
               "Records of calls, the newest first; ?agentId, ?session, ?status, ?after, ?limit",
               false, Carries::guest_bytes,
               [&db](Call& call) { return list_invocations(db, call); }});
  router_.add({"GET", "/v1/invocations/{invocation}", "One record", false, Carries::guest_bytes,
               [&db](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const auto found, co_await find_invocation(db, call));
                 co_return co_await call.reply_json(200, to_json(found));
               }});
  router_.add({"GET", "/v1/invocations/{invocation}/output", "All that a call printed", false,
               Carries::guest_bytes,
               [&db, &pool = pool_](Call& call) { return show_output(db, pool, call); }});
}

}  // namespace firebreak::api
