#include "api/mcp/mcp_api.h"

#include <algorithm>
#include <array>

#include "api/guard.h"
#include "net/race.h"

namespace firebreak::api::mcp {
namespace {

using wire::mcp::ErrorCode;
using wire::mcp::Incoming;
using wire::mcp::Message;
using wire::mcp::RpcError;

constexpr auto kReading = std::chrono::minutes(2);
constexpr auto kAnswering = std::chrono::seconds(30);
constexpr const char* kSessionHeader = "mcp-session-id";

net::Task<Result<>> refuse(net::HttpExchange& exchange, int status, RpcError error,
                           json::value id = nullptr, wire::Headers headers = {}) {
  headers.push_back({"content-type", "application/json"});
  co_return co_await exchange.reply(status, std::move(headers), wire::mcp::error_text(id, error),
                                    Deadline::in(kAnswering));
}

RpcError invalid(std::string message) {
  return {ErrorCode::invalid_request, std::move(message), {}};
}

net::Task<Result<>> accepted(net::HttpExchange& exchange) {
  co_return co_await exchange.reply(202, {}, "", Deadline::in(kAnswering));
}

std::optional<std::string> header_of(const net::HttpRequest& request, std::string_view name) {
  for (const wire::HeaderField& header : request.headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

// Pages of this host alone: another site's page, or a name that was made to lead here, is refused.
bool is_own_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    std::string_view host = origin.substr(scheme.size());
    const auto colon = host.rfind(':');
    if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos)
      host = host.substr(0, colon);
    return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
  }
  return false;
}

bool takes_both(std::string_view accept) {
  return accept.empty() || accept.contains("*/*") ||
         (accept.contains("application/json") && accept.contains("text/event-stream"));
}

// The tools do what an owner may do with microVMs; the narrow kinds of keys have their own calls.
bool may_use(core::KeyKind kind) {
  return kind == core::KeyKind::owner || kind == core::KeyKind::administrator;
}

std::string_view bearer_of(const net::HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view value = wire::find_header(request.headers, "authorization");
  if (!value.starts_with(kBearer)) return {};
  value.remove_prefix(kBearer.size());
  return value;
}

json::value progress_token(const Message& request) {
  const json::object* meta = request.meta();
  const json::value* token = meta == nullptr ? nullptr : meta->if_contains("progressToken");
  const bool good = token != nullptr && (token->is_string() || token->is_int64());
  return good ? *token : json::value(nullptr);
}

}  // namespace

McpApi::McpApi(Parts parts, control::KeyRing& keys, core::Seconds session_life)
    : parts_(parts), keys_(keys), sessions_(parts.supervisor.services().clock, session_life) {}

bool McpApi::claims(const net::HttpRequest&, const net::Target& target) const {
  return target.segments.size() == 1 && target.segments[0] == "mcp";
}

std::vector<Surface> McpApi::surface() const {
  std::vector<Surface> all{{"GET /mcp", Carries::nothing},
                           {"DELETE /mcp", Carries::nothing},
                           {"mcp:initialize", Carries::nothing},
                           {"mcp:ping", Carries::nothing},
                           {"mcp:server/discover", Carries::nothing},
                           {"mcp:tools/list", Carries::nothing},
                           {"mcp:resources/list", Carries::guest_bytes},
                           {"mcp:resources/templates/list", Carries::nothing},
                           {"mcp:resources/read", Carries::guest_bytes}};
  for (const Tool& tool : tools()) all.push_back({"mcp:tools/call " + tool.name, tool.carries});
  return all;
}

net::Task<void> McpApi::handle(net::HttpExchange& exchange, net::Target) {
  control::Services& services = parts_.supervisor.services();
  auto done = co_await caught(dispatch(exchange), services.exceptions(), "mcp");
  if (done || exchange.started()) co_return;
  if (done.error().code == Code::internal)
    services.log.error("mcp", {{"error", done.error().text()}});
  (void)co_await refuse(exchange, 500, {ErrorCode::internal_error, done.error().message, {}});
}

net::Task<Result<>> McpApi::dispatch(net::HttpExchange& exchange) {
  const net::HttpRequest& request = exchange.request();
  const auto origin = header_of(request, "origin");
  if (origin && !is_own_origin(*origin)) {
    exchange.note_caller(false);
    co_return co_await refuse(exchange, 403, invalid("pages of " + *origin + " may not call this"));
  }
  auto caller = keys_.authenticate(bearer_of(request));
  exchange.note_caller(caller.has_value());
  if (!caller)
    co_return co_await refuse(exchange, 401, invalid(caller.error().message), nullptr,
                              {{"www-authenticate", "Bearer"}});
  if (!may_use(caller->key.kind))
    co_return co_await refuse(
        exchange, 403,
        invalid("a key of the kind " + std::string(core::to_string(caller->key.kind)) +
                " may not use MCP; use an owner's key"));
  if (request.method == "POST")
    co_return co_await post({.exchange = exchange,
                             .caller = *std::move(caller),
                             .headers = {.version = header_of(request, "mcp-protocol-version"),
                                         .method = header_of(request, "mcp-method"),
                                         .name = header_of(request, "mcp-name")},
                             .session = header_of(request, kSessionHeader)});
  if (request.method == "DELETE" &&
      header_of(request, "mcp-protocol-version") != wire::mcp::kModernVersion)
    co_return co_await end_session(exchange, *caller);
  // Nothing is ever sent to a client that did not ask.
  co_return co_await refuse(exchange, 405, invalid("use POST"), nullptr,
                            {{"allow", "POST, DELETE"}});
}

net::Task<Result<>> McpApi::end_session(net::HttpExchange& exchange,
                                        const control::Caller& caller) {
  const auto id = header_of(exchange.request(), kSessionHeader);
  if (!id) co_return co_await refuse(exchange, 400, invalid("Mcp-Session-Id is missing"));
  if (!sessions_.close(*id, caller))
    co_return co_await refuse(exchange, 404, invalid("the session is unknown or over"));
  co_await parts_.sandboxes.end({caller.tenant, caller.key.id, *id});
  co_return co_await exchange.reply(200, {}, "", Deadline::in(kAnswering));
}

net::Task<Result<>> McpApi::post(Post post) {
  const net::HttpRequest& request = post.exchange.request();
  if (!wire::find_header(request.headers, "content-type").starts_with("application/json"))
    co_return co_await refuse(post.exchange, 415, invalid("Content-Type must be application/json"));
  if (!takes_both(wire::find_header(request.headers, "accept")))
    co_return co_await refuse(
        post.exchange, 406,
        invalid("Accept must have both application/json and text/event-stream"));
  auto body = co_await post.exchange.read_all(wire::mcp::kMaxMessage, Deadline::in(kReading));
  if (!body && body.error().code == Code::exhausted)
    co_return co_await refuse(post.exchange, 413, invalid("a message may have at most 16 MiB"));
  FB_CO_TRY(body);
  auto incoming = wire::mcp::parse(*body);
  body->clear();
  if (!incoming)
    co_return co_await refuse(post.exchange, 400, incoming.error().error, incoming.error().id);
  const bool is_modern = std::ranges::any_of(incoming->messages, [&](const Message& message) {
    return wire::mcp::is_modern(message, post.headers);
  });
  if (!is_modern) co_return co_await legacy(std::move(post), *std::move(incoming));
  if (incoming->batch)
    co_return co_await refuse(post.exchange, 400, invalid("this version has no batches"));
  co_return co_await modern(std::move(post), std::move(incoming->messages.front()));
}

net::Task<Result<>> McpApi::modern(Post post, Message message) {
  if (message.kind != Message::Kind::request) co_return co_await accepted(post.exchange);
  auto wrong = wire::mcp::check_headers(message, post.headers);
  if (!wrong) wrong = wire::mcp::check_envelope(message);
  if (wrong) co_return co_await refuse(post.exchange, 400, *std::move(wrong), message.id);
  session::SandboxOwner owner{post.caller.tenant, post.caller.key.id, ""};
  co_return co_await answer_request(post, nullptr, message, std::move(owner));
}

net::Task<Result<>> McpApi::legacy(Post post, Incoming incoming) {
  const Message& first = incoming.messages.front();
  if (post.headers.version && !wire::mcp::is_legacy_version(*post.headers.version)) {
    RpcError error =
        invalid("MCP-Protocol-Version " + *post.headers.version + " is not spoken here");
    co_return co_await refuse(post.exchange, 400, std::move(error), first.id);
  }
  if (!incoming.batch && first.kind == Message::Kind::request && first.method == "initialize")
    co_return co_await initialize(post, first);
  if (!post.session)
    co_return co_await refuse(
        post.exchange, 400, invalid("Mcp-Session-Id is missing; call initialize first"), first.id);
  const SessionPtr session = sessions_.find(*post.session, post.caller);
  if (!session)
    co_return co_await refuse(post.exchange, 404,
                              invalid("the session is unknown or over; call initialize again"),
                              first.id);
  session::SandboxOwner owner{post.caller.tenant, post.caller.key.id, *post.session};
  parts_.sandboxes.touch(owner);
  if (incoming.batch) co_return co_await batch(post, session, incoming, std::move(owner));
  if (first.kind == Message::Kind::request)
    co_return co_await answer_request(post, session, first, std::move(owner));
  notice(session, first);
  co_return co_await accepted(post.exchange);
}

net::Task<Result<>> McpApi::initialize(Post& post, const Message& request) {
  const std::string version = negotiated(request.params);
  auto id = sessions_.open(post.caller, version);
  if (!id)
    co_return co_await refuse(post.exchange, 429,
                              {ErrorCode::internal_error, id.error().message, {}}, request.id);
  co_return co_await post.exchange.reply(
      200, {{"content-type", "application/json"}, {kSessionHeader, *id}},
      wire::mcp::result_text(request.id, initialized(version)), Deadline::in(kAnswering));
}

// What a client tells: only that it does not want an answer any more matters.
void McpApi::notice(const SessionPtr& session, const Message& notification) {
  if (notification.method != "notifications/cancelled") return;
  const json::value* id = notification.params.if_contains("requestId");
  if (id == nullptr) return;
  const auto call = session->calls.find(json::serialize(*id));
  if (call != session->calls.end()) call->second->cancel();
}

// Only 2025-03-26 has batches. They are for short calls: one answer, when all are done.
net::Task<Result<>> McpApi::batch(Post& post, SessionPtr session, const Incoming& incoming,
                                  session::SandboxOwner owner) {
  if (session->version > wire::mcp::kAssumedVersion)
    co_return co_await refuse(post.exchange, 400, invalid("this version has no batches"));
  const auto executor = co_await net::asio::this_coro::executor;
  CallPresence presence(post.exchange, executor);
  Answer answer(post.exchange, executor, nullptr);
  const Asker asker{.era = Era::legacy, .owner = owner, .caller = presence, .progress = answer};
  std::string answers;
  for (const Message& message : incoming.messages) {
    if (message.kind != Message::Kind::request) {
      notice(session, message);
      continue;
    }
    const auto result = co_await run_method(parts_, asker, message);
    answers += answers.empty() ? "[" : ",";
    answers += result ? wire::mcp::result_text(message.id, *result)
                      : wire::mcp::error_text(message.id, result.error());
  }
  if (answers.empty()) co_return co_await accepted(post.exchange);
  co_return co_await answer.finish(200, answers + "]");
}

net::Task<Result<>> McpApi::answer_request(Post& post, SessionPtr session, const Message& request,
                                           session::SandboxOwner owner) {
  const auto executor = co_await net::asio::this_coro::executor;
  CallPresence presence(post.exchange, executor);
  Answer answer(post.exchange, executor, progress_token(request));
  const ListedCall listed(session, json::serialize(request.id), presence);
  if (session && listed.taken())
    co_return co_await refuse(post.exchange, 400, invalid("a call with this id is under way"),
                              request.id);
  const Asker asker{.era = session ? Era::legacy : Era::modern,
                    .owner = owner,
                    .caller = presence,
                    .progress = answer};
  auto running = [&]() -> net::Task<MethodResult> {
    auto result = co_await run_method(parts_, asker, request);
    answer.calm();
    co_return result;
  };
  auto either = co_await net::race(running(), answer.keep_alive());
  if (session) parts_.sandboxes.touch(owner);
  // Nobody waits for the answer to a call that was cancelled; the stream would stay open.
  if (presence.cancelled()) co_return co_await answer.drop();
  const MethodResult& result = std::get<0>(either);
  if (result) co_return co_await answer.finish(200, wire::mcp::result_text(request.id, *result));
  const bool unknown = !session && result.error().code == ErrorCode::method_not_found;
  co_return co_await answer.finish(unknown ? 404 : 200,
                                   wire::mcp::error_text(request.id, result.error()));
}

}  // namespace firebreak::api::mcp
