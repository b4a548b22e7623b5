#include "ingress/proxy.h"

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "core/clock.h"
#include "ingress/endpoint_tokens.h"
#include "ingress/shell.h"

namespace firebreak::ingress {
namespace {

// How long a request is held while its microVM starts or comes back.
constexpr std::chrono::seconds kWakeTime{120};
constexpr std::chrono::seconds kConnectTime{30};
constexpr std::chrono::seconds kReplyTime{30};
constexpr std::chrono::seconds kSweepEvery{15};

constexpr std::array<std::string_view, 4> kRepeatable{"GET", "HEAD", "OPTIONS", "DELETE"};

constexpr std::string_view kGrpcUnavailable = "14";  // its clients may try again

constexpr std::string_view kNoAuth = "Request missing authentication";
constexpr std::string_view kNoPort = "Access to port denied";
constexpr std::string_view kBadRequest = "Bad request";
constexpr std::string_view kTooMany = "Too many requests";
constexpr std::string_view kNoMoreWakes = "The microVM's tenant may wake no more for now";
constexpr std::string_view kTooManyConnections = "Too many connections";

class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

// Hooks are for us to call. Where the application answers on the same port, only their paths are
// closed.
bool leads_to_hooks(const core::Hooks& hooks, std::uint16_t port, const std::string& target) {
  if (!hooks.any() || hooks.port != port) return false;
  return port != kDefaultPort || is_hook_path(target);
}

// Whether the client speaks gRPC and has the answer's head: then trailers can say how it ended.
bool is_grpc(const net::HttpExchange& client) {
  return client.started() && client.request().version == 2 &&
         wire::find_header(client.request().headers, "content-type")
             .starts_with("application/grpc");
}

struct Way {
  net::HttpExchange& client;
  const Route& route;
  std::string_view endpoint;
  const session::Guest& guest;
  Backend& backend;
  const EndpointLimits& limits;
  std::uint16_t port;
  const net::UpstreamRequest& request;
};

net::Task<Result<>> pass_http1(Way way) {
  const bool repeatable = !way.request.has_body &&
                          std::ranges::find(kRepeatable, way.request.method) != kRepeatable.end();
  for (bool fresh = false;; fresh = true) {
    FB_CO_TRY_ASSIGN(Taken taken, co_await way.backend.take(way.guest, way.port, fresh,
                                                            Deadline::in(kConnectTime)));
    Passage passage(way.client, way.route, way.endpoint, way.guest, way.backend, way.limits);
    auto done = co_await taken.connection().begin(way.request, Deadline::in(kConnectTime));
    if (done) done = co_await passage.run(taken.connection(), way.request.has_body);
    // The application may have closed the connection just when it was used again.
    if (!done && taken.reused() && repeatable && !way.client.started() &&
        !co_await way.client.wait_gone(Deadline::in({})))
      continue;
    if (!done || !passage.switched()) co_return done;
    co_return co_await passage.relay(taken.connection().take_stream());
  }
}

net::Task<Result<>> pass_http2(Way way) {
  FB_CO_TRY_ASSIGN(const auto connection,
                   co_await way.backend.http2(way.guest, way.port, Deadline::in(kConnectTime)));
  FB_CO_TRY_ASSIGN(const auto server, connection->open(way.request));
  Passage passage(way.client, way.route, way.endpoint, way.guest, way.backend, way.limits);
  auto done = co_await passage.run(*server, way.request.has_body);
  if (!done && is_grpc(way.client)) {
    // A reset stream would be the client's INTERNAL. One that is gone already hears nothing.
    wire::Headers trailers{{"grpc-status", std::string(kGrpcUnavailable)},
                           {"grpc-message", "the application's answer was cut short"}};
    (void)co_await way.client.finish(Deadline::in(kReplyTime), std::move(trailers));
  }
  co_return done;
}

}  // namespace

struct Proxy::Shared {
  explicit Shared(const net::asio::any_io_executor& executor)
      : backends(executor), pause(executor) {}
  Backends backends;
  std::map<core::TenantId, std::size_t> connections;  // that a request of the tenant came through
  net::Event pause;

  // Until it is cancelled.
  static net::Task<void> sweep(std::shared_ptr<Shared> shared) {
    for (;;) {
      (void)co_await shared->pause.wait(Deadline::in(kSweepEvery));
      shared->backends.sweep();
    }
  }
};

// Counts a connection for a tenant: the owner of the microVM that first admitted a request on it.
class Proxy::Seat {
 public:
  Seat(std::shared_ptr<Shared> shared, core::TenantId tenant)
      : shared_(std::move(shared)), tenant_(std::move(tenant)) {
    ++shared_->connections[tenant_];
  }
  ~Seat() {
    const auto at = shared_->connections.find(tenant_);
    if (--at->second == 0) shared_->connections.erase(at);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

 private:
  std::shared_ptr<Shared> shared_;
  core::TenantId tenant_;
};

Proxy::Proxy(const net::asio::any_io_executor& executor, Entrance& entrance, TokenChecker& tokens,
             obs::Metrics& metrics, ProxyOptions options, obs::Exceptions exceptions)
    : entrance_(entrance),
      tokens_(tokens),
      metrics_(metrics),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>(executor)),
      tasks_(executor, exceptions) {
  sys::random_bytes(std::as_writable_bytes(std::span(&id_prefix_, 1)));
  metrics_.describe("firebreak_endpoint_requests_total", "counter",
                    "Requests to endpoints, by what became of them.");
  tasks_.spawn("endpoint_sweep", Shared::sweep(shared_));
}

Proxy::~Proxy() = default;

// A UUID's looks, unique within this server; no secret. Every request needs one.
std::string Proxy::next_request_id() {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const std::uint64_t count = ++id_count_;
  std::string id = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
  std::size_t digit = 0;
  for (char& c : id) {
    if (c != 'x') continue;
    const std::uint64_t half = digit < 15 ? id_prefix_ : count;
    c = kDigits[half >> (digit % 15 * 4) & 0xf];
    ++digit;
  }
  return id;
}

std::expected<Proxy::Admitted, Proxy::Refusal> Proxy::admit(const net::HttpRequest& request) {
  const auto refused = [](int status, std::string_view body) {
    return std::unexpected(Refusal{status, body});
  };
  auto route = read_route(request, options_.domain);
  if (!route)
    return route.error().code == Code::denied ? refused(403, kNoAuth) : refused(400, kBadRequest);
  const TokenClaims* claims = route->token.empty() ? nullptr : tokens_.check(route->token);
  if (claims == nullptr) return refused(403, kNoAuth);
  auto place = entrance_.find(claims->microvm);
  // A token ends with its microVM.
  if (!place || (route->style != Style::token && route->endpoint != place->endpoint.str()))
    return refused(403, kNoAuth);
  const bool shell = claims->kind == core::TokenKind::shell;
  const std::uint16_t port = route->port.value_or(shell ? kShellPort : claims->port);
  if (!claims->ports.contains(port) || leads_to_hooks(place->hooks, port, route->target))
    return refused(403, kNoPort);
  Admitted admitted{.route = *std::move(route),
                    .microvm = std::move(place->microvm),
                    .tenant = std::move(place->tenant),
                    .endpoint = std::move(place->endpoint),
                    .kind = claims->kind,
                    .port = port,
                    .limits = {}};
  if (options_.limits_by_size) admitted.limits = EndpointLimits::of_size(place->memory_mib);
  return admitted;
}

bool Proxy::seat(net::HttpExchange& exchange, const core::TenantId& tenant) {
  std::shared_ptr<void>& kept = exchange.kept();
  if (kept) return true;
  const auto at = shared_->connections.find(tenant);
  if (at != shared_->connections.end() && at->second >= options_.connections_of_tenant)
    return false;
  kept = std::make_shared<Seat>(shared_, tenant);
  return true;
}

net::Task<Proxy::Refused> Proxy::serve(net::HttpExchange& exchange, const std::string& id) {
  const auto admitted = admit(exchange.request());
  if (!admitted) {
    exchange.note_caller(false);
    co_return admitted.error();
  }
  if (!seat(exchange, admitted->tenant)) co_return Refusal{429, kTooManyConnections};
  exchange.note_caller(true);
  const auto backend = shared_->backends.of(admitted->microvm);
  const EndpointLimits& limits = admitted->limits;
  const Counted counted(backend->requests);
  const std::size_t most = limits.requests_at_once == 0 ? kMaxRequests : limits.requests_at_once;
  if (backend->requests > most ||
      !backend->request_rate.take(limits.requests_per_second, Rate::Clock::now()))
    co_return Refusal{429, kTooMany};

  auto request = to_application(exchange.request(), admitted->route, id);
  if (!request) co_return Refusal{400, kBadRequest};
  // Held while the microVM starts or comes back; many who wait cause one resume.
  const auto guest = co_await entrance_.enter(admitted->microvm, Deadline::in(kWakeTime));
  if (!guest && guest.error().code == Code::exhausted)
    co_return Refusal{429, kNoMoreWakes, guest.error().resets_at_ms};
  if (!guest) co_return Refusal{502, {}};
  if (admitted->kind == core::TokenKind::shell)
    co_return co_await serve_terminal(exchange, *admitted, *guest);

  std::size_t size = request->target.size();
  for (const auto& [name, value] : request->headers) size += name.size() + value.size() + 4;
  guest->relayed(size, 0);
  Way way{exchange, admitted->route, admitted->endpoint.str(), *guest,
          *backend, limits,          admitted->port,           *request};
  const bool http2 = admitted->route.force_h2 && !admitted->route.websocket;
  auto done = co_await (http2 ? pass_http2(way) : pass_http1(way));
  if (!done && !exchange.started()) co_return Refusal{502, {}};
  co_return std::nullopt;
}

net::Task<Proxy::Refused> Proxy::serve_terminal(net::HttpExchange& exchange,
                                                const Admitted& admitted,
                                                const session::Guest& guest) {
  if (!admitted.route.websocket) co_return Refusal{502, {}};
  auto served = co_await serve_shell(exchange, admitted.route, guest);
  if (!served && !exchange.started()) co_return Refusal{502, {}};
  co_return std::nullopt;
}

net::Task<void> Proxy::refuse(net::HttpExchange& exchange, const Refusal& refusal,
                              const std::string& id) {
  wire::Headers headers{{"x-amzn-requestid", id}, {"cache-control", "private, no-store"}};
  if (!refusal.body.empty()) headers.push_back({"content-type", "text/plain"});
  if (refusal.resets_at_ms != 0) {
    const auto now = core::to_unix_ms(core::SystemClock().now());
    const auto seconds = std::max<std::int64_t>(1, (refusal.resets_at_ms - now + 999) / 1000);
    headers.push_back({"retry-after", std::to_string(seconds)});
  }
  // A client without an admitted request keeps no connection.
  if (!exchange.kept()) headers.push_back({"connection", "close"});
  (void)co_await exchange.reply(refusal.status, std::move(headers), std::string(refusal.body),
                                Deadline::in(kReplyTime));
}

net::Task<void> Proxy::handle(net::HttpExchange& exchange) {
  const std::string id = next_request_id();
  const Refused refused = co_await serve(exchange, id);
  if (!refused) {
    metrics_.add("firebreak_endpoint_requests_total", "result=\"passed\"");
    co_return;
  }
  metrics_.add("firebreak_endpoint_requests_total",
               obs::label("result", std::to_string(refused->status)));
  co_await refuse(exchange, *refused, id);
}

}  // namespace firebreak::ingress
