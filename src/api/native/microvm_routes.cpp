// Routes of microVMs: run, list, get, change, suspend, resume, fork, terminate.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "base/words.h"
#include "control/microvm_names.h"

namespace firebreak::api {
namespace {

using Names = ingress::EndpointAddress;

core::MicrovmId id_of(const Call& call) {
  return core::MicrovmId(call.param("id"));
}

// Members that are absent stay as they are; null takes the policy, the limit or the name away.
Result<control::MicrovmUpdate> parse_update(const json::object& body) {
  JsonReader reader(body);
  control::MicrovmUpdate update;
  if (body.contains("idle")) update.idle.emplace(std::nullopt);
  if (const json::object* idle = reader.object("idle", false)) {
    FB_TRY_ASSIGN(update.idle, parse_idle(*idle, "idle."));
  }
  if (body.contains("maxDurationSeconds")) update.max_duration.emplace(std::nullopt);
  if (reader.has("maxDurationSeconds"))
    update.max_duration.emplace(core::Seconds(reader.u64("maxDurationSeconds")));
  if (body.contains("egress")) update.egress = reader.string("egress");
  if (body.contains("name")) update.name = reader.string_or("name", "");
  FB_TRY(reader.result());
  if (reader.has("name")) FB_TRY(core::check_microvm_name(*update.name));
  return update;
}

store::PageRequest parse_page(const Call& call) {
  store::PageRequest page;
  page.token = call.query("pageToken");
  if (const auto size = call.number("pageSize")) page.size = static_cast<std::uint32_t>(*size);
  return page;
}

Result<store::MicrovmFilter> parse_filter(const Call& call) {
  store::MicrovmFilter filter;
  if (call.target.has_query("state")) filter.state = core::parse_microvm_state(call.query("state"));
  if (call.target.has_query("tag")) {
    FB_TRY_ASSIGN(NameValue tag, parse_pair(call.query("tag"), "tag"));
    filter.tag = {std::move(tag.name), std::move(tag.value)};
  }
  return filter;
}

net::Task<Result<>> run_microvm(control::Supervisor& supervisor, const Names& endpoints,
                                Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(control::LaunchRequest request, parse_launch(body));
  FB_CO_TRY_ASSIGN(
      core::Microvm microvm,
      co_await supervisor.launch(call.caller.tenant, std::move(request), call.deadline));
  if (call.query("wait") != "0") {
    FB_CO_TRY_ASSIGN(microvm,
                     co_await supervisor.wait_started(call.tenant(), microvm.id, call.deadline));
    if (microvm.state == core::MicrovmState::terminated)
      co_return fail(Code::guest,
                     "the microVM " + microvm.id.str() + " did not start: " + microvm.state_reason);
  }
  co_return co_await call.reply_json(201, to_json(microvm, endpoints));
}

// Whose microVMs are listed: the caller's, those of ?tenant, or all (unset).
Result<std::optional<core::TenantId>> whose(const control::KeyRing& keys, const Call& call) {
  if (!call.target.has_query("tenant")) return call.tenant();
  if (!call.caller.key.admin())
    return fail(Code::denied, "microVMs of other tenants need an administrator's key");
  if (call.query("tenant") == "all") return std::nullopt;
  FB_TRY_ASSIGN(core::TenantId id, core::parse_tenant_id(call.query("tenant")));
  if (keys.tenant(id) == nullptr)
    return fail(Code::not_found, Reason{"tenant_not_found"}, "there is no tenant " + id.str());
  return id;
}

net::Task<Result<>> list_microvms(control::Supervisor& supervisor, const control::KeyRing& keys,
                                  const Names& endpoints, Call& call) {
  FB_CO_TRY_ASSIGN(const auto tenant, whose(keys, call));
  const store::PageRequest page = parse_page(call);
  FB_CO_TRY_ASSIGN(store::MicrovmFilter filter, parse_filter(call));
  store::Database& db = supervisor.services().db;
  if (call.target.has_query("image")) {
    if (!tenant)
      co_return fail(Code::invalid, "an image's name means one tenant's image",
                     Repair{"name the tenant"});
    const std::string name = call.query("image");
    FB_CO_TRY_ASSIGN(auto image, co_await db.run([&](const store::Store& store) {
      return store.find_image_by_name(*tenant, name);
    }));
    if (!image)
      co_return fail(Code::not_found, Reason{"image_not_found"}, "there is no image " + name);
    filter.image = image->id;
  }
  FB_CO_TRY_ASSIGN(auto found, co_await db.run([&](const store::Store& store) {
    return tenant ? store.list_microvms(*tenant, filter, page)
                  : store.list_all_microvms(filter, page);
  }));
  json::array items;
  for (const core::Microvm& microvm : found.items) {
    json::object item = to_json(microvm, endpoints);
    if (call.target.has_query("tenant")) item["tenant"] = microvm.tenant.str();
    items.push_back(std::move(item));
  }
  json::object answer{{"items", std::move(items)}};
  if (!found.next.empty()) answer["nextPageToken"] = found.next;
  co_return co_await call.reply_json(200, answer);
}

// Whose microVM the call is about. An administrator may look at and end anybody's; what it did is
// in the log with its key, and what its owner is told, in the owner's events.
net::Task<Result<core::TenantId>> owner_of(control::Supervisor& supervisor, Call& call,
                                           std::string_view deed) {
  if (!call.caller.key.admin()) co_return call.tenant();
  FB_CO_TRY_ASSIGN(
      const core::TenantId owner,
      co_await control::owner_of_microvm(supervisor.services().db, call.tenant(), id_of(call)));
  if (owner != call.tenant())
    supervisor.services().log.info("administrator", {{"key", call.caller.key.id.str()},
                                                     {"did", deed},
                                                     {"id", call.param("id")},
                                                     {"tenant", owner.str()}});
  co_return owner;
}

net::Task<Result<>> get_microvm(control::Supervisor& supervisor, const Names& endpoints,
                                Call& call) {
  FB_CO_TRY_ASSIGN(const core::TenantId owner, co_await owner_of(supervisor, call, "look"));
  FB_CO_TRY_ASSIGN(const core::Microvm microvm, co_await supervisor.get(owner, id_of(call)));
  json::object answer = to_json(microvm, endpoints);
  if (owner != call.tenant()) {
    FB_CO_TRY(co_await supervisor.note(microvm.id, control::kSeenByAdministrator));
    answer["tenant"] = owner.str();
  }
  if (auto outlook = supervisor.outlook(microvm.id)) {
    answer["awakeBecause"] = outlook->awake_because;
    if (outlook->next) {
      answer["next"] =
          json::object{{"at", core::to_unix_ms(outlook->next->at)}, {"why", outlook->next->why}};
    }
  }
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> end_microvm(control::Supervisor& supervisor, const Names& endpoints,
                                Call& call) {
  FB_CO_TRY_ASSIGN(const core::TenantId owner, co_await owner_of(supervisor, call, "end"));
  const char* why =
      owner == call.tenant() ? control::kEndedAsAsked : control::kEndedByAdministrator;
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await supervisor.terminate(owner, id_of(call), call.deadline, why));
  json::object answer = to_json(microvm, endpoints);
  if (owner != call.tenant()) answer["tenant"] = owner.str();
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> fork_microvm(control::Supervisor& supervisor, const Names& endpoints,
                                 Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::uint64_t count = reader.u64_or("count", 1);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(auto children,
                   co_await supervisor.fork(call.caller.tenant, id_of(call),
                                            static_cast<std::uint32_t>(count), call.deadline));
  json::array items;
  for (core::Microvm& child : children) {
    FB_CO_TRY_ASSIGN(child,
                     co_await supervisor.wait_started(call.tenant(), child.id, call.deadline));
    items.push_back(to_json(child, endpoints));
  }
  co_return co_await call.reply_json(201, json::object{{"items", std::move(items)}});
}

}  // namespace

void NativeApi::add_microvm_routes() {
  control::Supervisor& s = supervisor_;
  const Names& endpoints = endpoints_;
  router_.add({"POST", "/v1/microvms", "Run a microVM. Answers when it is RUNNING", false,
               Carries::guest_bytes,
               [&s, &endpoints](Call& call) { return run_microvm(s, endpoints, call); }});
  router_.add({"GET", "/v1/microvms", "List microVMs, newest first", false, Carries::guest_bytes,
               [&s, &keys = keys_, &endpoints](Call& call) {
                 return list_microvms(s, keys, endpoints, call);
               }});
  router_.add({"GET", "/v1/microvms/{id}", "One microVM, why it is awake and what happens next",
               false, Carries::guest_bytes,
               [&s, &endpoints](Call& call) { return get_microvm(s, endpoints, call); }});
  router_.add(
      {"PATCH", "/v1/microvms/{id}", "Change name, idle policy, maximum duration and egress policy",
       false, Carries::guest_bytes, [&s, &endpoints](Call& call) -> net::Task<Result<>> {
         FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
         FB_CO_TRY_ASSIGN(control::MicrovmUpdate update, parse_update(body));
         FB_CO_TRY_ASSIGN(
             const core::Microvm microvm,
             co_await s.update(call.tenant(), id_of(call), std::move(update), call.deadline));
         co_return co_await call.reply_json(200, to_json(microvm, endpoints));
       }});
  router_.add({"DELETE", "/v1/microvms/{id}", "Terminate; one that has ended already is fine",
               false, Carries::guest_bytes,
               [&s, &endpoints](Call& call) { return end_microvm(s, endpoints, call); }});
  router_.add({"POST", "/v1/microvms/{id}/suspend", "Suspend, memory kept", false,
               Carries::guest_bytes, [&s, &endpoints](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                                  co_await s.suspend(call.tenant(), id_of(call), call.deadline));
                 co_return co_await call.reply_json(200, to_json(microvm, endpoints));
               }});
  router_.add({"POST", "/v1/microvms/{id}/resume", "Resume", false, Carries::guest_bytes,
               [&s, &endpoints](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                                  co_await s.resume(call.tenant(), id_of(call), call.deadline));
                 co_return co_await call.reply_json(200, to_json(microvm, endpoints));
               }});
  router_.add({"POST", "/v1/microvms/{id}/fork", "Make 1 to 64 running copies: {count}", false,
               Carries::guest_bytes,
               [&s, &endpoints](Call& call) { return fork_microvm(s, endpoints, call); }});
}

}  // namespace firebreak::api
