// Routes of microVMs: run, list, get, change, suspend, resume, fork, terminate.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "base/text.h"
#include "control/microvm_names.h"

namespace firebreak::api {
namespace {

using Names = ingress::EndpointAddress;

core::MicrovmId id_of(const Call& call) {
  return core::MicrovmId(call.param("id"));
}

// Members that are absent stay as they are; null takes the policy, the limit or the name away.
Result<control::MicrovmUpdate> parse_update(const json::object& body) {
  FB_TRY(check_known(body, {"idle", "maxDurationSeconds", "egress", "name"}));
  control::MicrovmUpdate update;
  if (const json::value* idle = body.if_contains("idle")) {
    if (idle->is_null()) {
      update.idle.emplace(std::nullopt);
    } else if (idle->is_object()) {
      FB_TRY_ASSIGN(const core::IdlePolicy policy, parse_idle(idle->as_object(), "idle."));
      update.idle.emplace(policy);
    } else {
      return fail(Code::invalid, "idle must be an object or null");
    }
  }
  if (const json::value* duration = body.if_contains("maxDurationSeconds")) {
    if (duration->is_null()) {
      update.max_duration.emplace(std::nullopt);
    } else {
      JsonReader reader(body);
      const std::uint64_t seconds = reader.u64("maxDurationSeconds");
      if (seconds == 0 || seconds > 366UL * 24 * 3600)
        reader.reject("maxDurationSeconds", "must be 1 to 31622400");
      FB_TRY(reader.result());
      update.max_duration.emplace(core::Seconds(seconds));
    }
  }
  if (body.contains("egress")) {
    JsonReader reader(body);
    update.egress = reader.string("egress");
    FB_TRY(reader.result());
  }
  if (const json::value* name = body.if_contains("name")) {
    JsonReader reader(body);
    update.name = name->is_null() ? "" : reader.string("name");
    FB_TRY(reader.result());
    if (!name->is_null()) FB_TRY(core::check_microvm_name(*update.name));
  }
  return update;
}

Result<store::PageRequest> parse_page(const Call& call) {
  store::PageRequest page;
  page.token = call.query("pageToken");
  if (call.target.has_query("pageSize")) {
    const auto size = parse_u64(call.query("pageSize"));
    if (!size || *size == 0 || *size > 1000)
      return fail(Code::invalid, "pageSize must be 1 to 1000");
    page.size = static_cast<std::uint32_t>(*size);
  }
  return page;
}

Result<store::MicrovmFilter> parse_filter(const Call& call) {
  store::MicrovmFilter filter;
  if (call.target.has_query("state")) {
    filter.state = core::parse_microvm_state(call.query("state"));
    if (!filter.state)
      return fail(
          Code::invalid,
          "state must be PENDING, RUNNING, SUSPENDING, SUSPENDED, TERMINATING or TERMINATED");
  }
  if (call.target.has_query("tag")) {
    const std::string tag = call.query("tag");
    const auto at = tag.find('=');
    if (at == std::string::npos) return fail(Code::invalid, "tag must be KEY=VALUE");
    filter.tag = {tag.substr(0, at), tag.substr(at + 1)};
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
  if (!call.caller.key.admin)
    return fail(Code::denied, "microVMs of other tenants need an administrator's key");
  if (call.query("tenant") == "all") return std::nullopt;
  FB_TRY_ASSIGN(core::TenantId id, core::parse_tenant_id(call.query("tenant")));
  if (keys.tenant(id) == nullptr) return fail(Code::not_found, "there is no tenant " + id.str());
  return id;
}

net::Task<Result<>> list_microvms(control::Supervisor& supervisor, const control::KeyRing& keys,
                                  const Names& endpoints, Call& call) {
  FB_CO_TRY_ASSIGN(const auto tenant, whose(keys, call));
  FB_CO_TRY_ASSIGN(const store::PageRequest page, parse_page(call));
  FB_CO_TRY_ASSIGN(store::MicrovmFilter filter, parse_filter(call));
  store::Database& db = supervisor.services().db;
  if (call.target.has_query("image")) {
    if (!tenant)
      co_return fail(Code::invalid, "an image's name means one tenant's image; name the tenant");
    const std::string name = call.query("image");
    FB_CO_TRY_ASSIGN(auto image, co_await db.run([&](const store::Store& store) {
      return store.find_image_by_name(*tenant, name);
    }));
    if (!image) co_return fail(Code::not_found, "there is no image " + name);
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
  if (!call.caller.key.admin) co_return call.tenant();
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
  FB_CO_TRY(check_known(body, {"count"}));
  JsonReader reader(body);
  const std::uint64_t count = reader.u64_or("count", 1);
  if (count == 0 || count > 64) reader.reject("count", "must be 1 to 64");
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
  router_.add({"POST", "/v1/microvms",
               "Run a microVM. Answers when it is RUNNING; with ?wait=0 at once, as PENDING", false,
               Carries::guest_bytes,
               [&s, &endpoints](Call& call) { return run_microvm(s, endpoints, call); }});
  router_.add({"GET", "/v1/microvms",
               "List microVMs; ?image, ?state, ?tag=KEY=VALUE, ?pageSize, ?pageToken; "
               "administrators: ?tenant=ACCOUNT or all",
               false, Carries::guest_bytes, [&s, &keys = keys_, &endpoints](Call& call) {
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
