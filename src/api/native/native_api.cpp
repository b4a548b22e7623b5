#include "api/native/native_api.h"

#include "api/guard.h"
#include "api/native/duties.h"
#include "api/native/fields.h"
#include "api/native/openapi.h"
#include "control/microvm_names.h"

namespace firebreak::api {
namespace {
// Nothing the API does by itself takes longer; streams set their own.
constexpr auto kCallDeadline = std::chrono::minutes(5);
constexpr std::string_view kSessionFiles = "/v1/sessions/{session}/files";
constexpr std::string_view kSessionTar = "/v1/sessions/{session}/tar";
}  // namespace

NativeApi::NativeApi(control::Supervisor& supervisor, session::Guests& guests,
                     session::Sandboxes& sandboxes, control::KeyRing& keys,
                     control::SecretBook& secrets, control::Images& images, control::Builds& builds,
                     net::asio::thread_pool& pool, ingress::EndpointTokens& tokens,
                     const ingress::EndpointAddress& endpoints,
                     std::function<net::Task<Result<control::CheckReport>>(bool repair)> check)
    : supervisor_(supervisor),
      guests_(guests),
      sandboxes_(sandboxes),
      keys_(keys),
      secrets_(secrets),
      images_(images),
      builds_(builds),
      pool_(pool),
      tokens_(tokens),
      endpoints_(endpoints),
      check_(std::move(check)) {
  add_microvm_routes();
  add_exec_routes();
  add_log_routes();
  add_file_routes();
  add_context_routes();
  add_terminal_routes();
  add_token_routes();
  add_image_routes();
  add_build_routes();
  add_tenant_routes();
  add_history_routes();
  add_egress_routes();
  add_role_routes();
  add_secret_routes();
  add_template_routes();
  add_session_routes();
}

bool NativeApi::claims(const net::HttpRequest&, const net::Target& target) const {
  return !target.segments.empty() && target.segments[0] == "v1";
}

std::vector<Surface> NativeApi::surface() const {
  std::vector<Surface> all{{"GET /v1/openapi.json", Carries::nothing}};
  for (const Route& route : router_.routes())
    all.push_back({route.method + " " + route.pattern, route.carries});
  return all;
}

json::object NativeApi::openapi() const {
  return openapi_document(router_.routes());
}

Result<control::Caller> NativeApi::authenticate(const net::HttpRequest& request) const {
  std::string_view value = wire::find_header(request.headers, "authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (value.starts_with(kBearer)) {
    value.remove_prefix(kBearer.size());
  } else {
    value = {};
  }
  return keys_.authenticate(value);
}

net::Task<Result<>> NativeApi::dispatch(net::HttpExchange& exchange, net::Target target) {
  // The document is public: it tells nothing about anybody.
  if (target.segments.size() == 2 && target.segments[1] == "openapi.json" &&
      exchange.request().method == "GET") {
    co_return co_await exchange.reply(200, {{"content-type", "application/json"}},
                                      json::serialize(openapi()),
                                      Deadline::in(std::chrono::seconds(30)));
  }
  auto known = authenticate(exchange.request());
  exchange.note_caller(known.has_value());
  FB_CO_TRY_ASSIGN(control::Caller caller, std::move(known));
  const Match match = router_.match(exchange.request().method, target.segments);
  if (match.route == nullptr && match.path_known)
    co_return co_await reply_wrong_method(exchange, match.methods);
  if (match.route == nullptr) {
    co_return fail(
        Code::not_found, Reason{"route_not_found"},
        exchange.request().method + " " + exchange.request().target + " is not part of the API",
        Repair{"see /v1/openapi.json"});
  }
  const core::KeyKind kind = caller.key.kind;
  if (!may_call(kind, match.route->admin, match.route->method, match.route->pattern)) {
    if (match.route->admin)
      co_return fail(Code::denied, Reason{"admin_only"}, "this call needs an administrator's key");
    co_return fail(
        Code::denied, Reason{"wrong_kind_of_key"},
        "a key of the kind " + std::string(core::to_string(kind)) + " may not make this call",
        Repair{"use an owner's key"});
  }
  const CallFields& takes = fields_of(match.route->method, match.route->pattern);
  FB_CO_TRY(check_query(takes, target));
  Call call{.exchange = exchange,
            .target = std::move(target),
            .params = match.params,
            .caller = std::move(caller),
            .deadline = Deadline::in(kCallDeadline),
            .carries = match.route->carries,
            .takes = &takes};
  // Whatever the caller calls the microVM, from here on it is its id.
  if (match.route->pattern.starts_with(kMicrovmPath)) {
    FB_CO_TRY_ASSIGN(const core::MicrovmId id,
                     co_await control::resolve_microvm(supervisor_.services().db, call.tenant(),
                                                       call.param("id")));
    call.params["id"] = id.str();
  }
  // Files of a session are those of its microVM.
  if (match.route->pattern.starts_with(kSessionFiles) || match.route->pattern == kSessionTar) {
    FB_CO_TRY_ASSIGN(const auto session,
                     co_await sandboxes_.find(call.caller, core::SessionId(call.param("session"))));
    call.params["id"] = session.microvm.str();
  }
  co_return co_await match.route->handler(call);
}

net::Task<void> NativeApi::handle(net::HttpExchange& exchange, net::Target target) {
  auto done = co_await caught(dispatch(exchange, std::move(target)),
                              supervisor_.services().exceptions(), "native");
  if (done) co_return;
  obs::Metrics& metrics = supervisor_.services().metrics;
  metrics.add("firebreak_api_errors_total", obs::label("code", to_string(done.error().code)));
  if (done.error().code == Code::internal || done.error().code == Code::corrupt) {
    supervisor_.services().log.error(
        "api", {{"method", exchange.request().method}, {"error", done.error().text()}});
  }
  co_await reply_error(exchange, done.error());
}

}  // namespace firebreak::api
