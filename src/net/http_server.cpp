#include "net/http_server.h"

#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "net/http_connection.h"
#include "net/tcp_stream.h"
#include "net/tls_stream.h"

namespace firebreak::net {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// After a failed accept (no descriptors left) the kernel would fail the next one as well.
constexpr std::chrono::milliseconds kAcceptPause{100};
// How long drain() waits for handlers whose clients it has cut off.
constexpr std::chrono::seconds kCutGrace{5};

// What the tasks share; lives on in them when the server object is gone.
struct Listener : std::enable_shared_from_this<Listener> {
  Listener(const asio::any_io_executor& ex, tcp::acceptor socket)
      : executor(ex), acceptor(std::move(socket)), changed(ex), slot(ex) {}

  void begin_accepting();
  Task<void> accept_loop();
  Task<void> make_room();
  Task<void> serve(tcp::socket socket, HttpPeer peer);
  Task<Result<std::shared_ptr<HttpConnection>>> begin(std::unique_ptr<ByteStream> stream,
                                                      HttpPeer peer);
  void start(tcp::socket socket);
  void stop_accepting();
  void cut();

  asio::any_io_executor executor;
  tcp::acceptor acceptor;
  std::shared_ptr<TlsServer> tls;
  std::shared_ptr<HttpService> service;
  std::set<HttpConnection*> connections;
  std::shared_ptr<Strangers> strangers = std::make_shared<Strangers>();
  std::set<ByteStream*> opening;  // in the TLS handshake, or before the first bytes
  std::size_t tasks = 0;
  bool accepting = true;
  Event changed;  // of drain(): a task has ended
  Event slot;     // of accept_loop()
};

// Strangers cannot keep others out: the oldest stranger's connection ends. Where every caller is
// known, new connections wait in the kernel's backlog.
Task<void> Listener::make_room() {
  bool cut = false;
  while (accepting && tasks >= service->limits.max_connections) {
    if (!cut) cut = strangers->cut_oldest();
    strangers->room_wanted = !cut;
    (void)co_await slot.wait(kForever);
  }
  strangers->room_wanted = false;
}

// One that no longer accepted would be a server that nobody can reach: an exception costs the
// connection that it came with.
void Listener::begin_accepting() {
  asio::co_spawn(
      executor, [self = shared_from_this()]() -> Task<void> { co_await self->accept_loop(); },
      [self = shared_from_this()](const std::exception_ptr& thrown) {
        if (!thrown) return;
        self->service->exceptions.report("accept", "", thrown);
        if (self->accepting) self->begin_accepting();
      });
}

Task<void> Listener::accept_loop() {
  while (accepting) {
    auto [ec, socket] = co_await acceptor.async_accept(kNoThrow);
    if (!accepting) break;
    if (ec) {
      (void)co_await slot.wait(Deadline::in(kAcceptPause));
      continue;
    }
    co_await make_room();
    if (!accepting) break;
    start(std::move(socket));
  }
}

void Listener::start(tcp::socket socket) {
  error_code ec;
  const tcp::endpoint remote = socket.remote_endpoint(ec);
  if (ec) return;
  ++tasks;
  const std::string from = remote.address().to_string();
  HttpPeer peer{.address = from, .sni = {}, .tls = tls != nullptr};
  asio::co_spawn(
      executor,
      [self = shared_from_this(), client = std::move(socket), who = std::move(peer)]() mutable
          -> Task<void> { co_await self->serve(std::move(client), std::move(who)); },
      [self = shared_from_this(), from](const std::exception_ptr& thrown) {
        if (thrown) self->service->exceptions.report("connection", from, thrown);
        --self->tasks;
        self->slot.notify();
        self->changed.notify();
      });
}

Task<void> Listener::serve(tcp::socket socket, HttpPeer peer) {
  auto stream = make_tcp_stream(std::move(socket));
  auto place = std::make_shared<Strangers::Place>(strangers);
  place->cut = [raw = stream.get()] { raw->close(); };
  peer.place = place;
  auto connection = co_await begin(std::move(stream), std::move(peer));
  if (!connection) co_return;
  place->cut = [raw = connection->get()] { raw->cut(); };
  place.reset();
  connections.insert(connection->get());
  co_await (*connection)->run();
  connections.erase(connection->get());
}

// TLS if configured, and which of the two protocols the client speaks: by ALPN, or by how it
// begins.
Task<Result<std::shared_ptr<HttpConnection>>> Listener::begin(std::unique_ptr<ByteStream> stream,
                                                              HttpPeer peer) {
  struct Opening {
    Opening(std::set<ByteStream*>& set, ByteStream* stream) : set_(set), stream_(stream) {
      set_.insert(stream_);
    }
    ~Opening() { set_.erase(stream_); }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;
    std::set<ByteStream*>& set_;
    ByteStream* stream_;
  };
  const Opening guard(opening, stream.get());
  if (tls) {
    const Deadline deadline = Deadline::in(service->limits.tls_timeout);
    FB_CO_TRY_ASSIGN(TlsStream secure, co_await tls->accept(std::move(stream), deadline));
    peer.sni = secure.sni;
    if (!secure.protocol.empty()) {
      auto make = secure.protocol == "h2" ? make_http2_connection : make_http1_connection;
      co_return make(executor, std::move(secure.stream), service, std::move(peer), {});
    }
    stream = std::move(secure.stream);
  }
  const Deadline deadline = Deadline::in(service->limits.head_timeout);
  std::string received;
  while (received.size() < kPreface.size() && kPreface.starts_with(received)) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(deadline));
    if (bytes.empty()) co_return fail(Code::unavailable, "the client went away");
    received += bytes;
  }
  auto make = received.starts_with(kPreface) ? make_http2_connection : make_http1_connection;
  co_return make(executor, std::move(stream), service, std::move(peer), std::move(received));
}

void Listener::stop_accepting() {
  accepting = false;
  service->draining = true;
  error_code ignored;
  acceptor.close(ignored);
  slot.notify();
}

void Listener::cut() {
  for (ByteStream* stream : opening) stream->close();
  for (HttpConnection* connection : connections) connection->cut();
}

class Server : public HttpServer {
 public:
  Server(std::shared_ptr<Listener> listener, std::string address)
      : listener_(std::move(listener)), address_(std::move(address)) {}
  ~Server() override {
    listener_->stop_accepting();
    listener_->cut();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const override { return address_; }

  Task<void> drain(Deadline deadline) override {
    const auto listener = listener_;
    listener->stop_accepting();
    for (ByteStream* stream : listener->opening) stream->close();
    for (HttpConnection* connection : listener->connections) connection->drain();
    while (listener->tasks > 0 && !deadline.passed())
      (void)co_await listener->changed.wait(deadline);
    listener->cut();
    const Deadline grace = Deadline::in(kCutGrace);
    while (listener->tasks > 0 && !grace.passed()) (void)co_await listener->changed.wait(grace);
  }

 private:
  std::shared_ptr<Listener> listener_;
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const asio::any_io_executor& executor,
                                                       const std::string& address,
                                                       std::optional<TlsFiles> tls,
                                                       HttpHandler handler, HttpLimits limits,
                                                       obs::Exceptions exceptions) {
  FB_TRY_ASSIGN(BoundAddress bound, BoundAddress::bind(address));
  return serve(executor, std::move(bound), std::move(tls), std::move(handler), limits, exceptions);
}

Result<std::unique_ptr<HttpServer>> HttpServer::serve(const asio::any_io_executor& executor,
                                                      BoundAddress bound,
                                                      std::optional<TlsFiles> tls,
                                                      HttpHandler handler, HttpLimits limits,
                                                      obs::Exceptions exceptions) {
  std::shared_ptr<TlsServer> secure;
  if (tls) {
    FB_TRY_ASSIGN(secure, TlsServer::load(*tls, {"h2", "http/1.1"}));
  }
  tcp::acceptor acceptor(executor);
  error_code ec;
  acceptor.assign(bound.is_v6() ? tcp::v6() : tcp::v4(), bound.get(), ec);
  if (ec) return fail(Code::unavailable, "cannot listen on " + bound.text(), ec.message());
  const std::string real = bound.text();
  (void)bound.release();  // the acceptor's now
  auto listener = std::make_shared<Listener>(executor, std::move(acceptor));
  listener->tls = std::move(secure);
  listener->service = std::make_shared<HttpService>();
  listener->service->handler = std::move(handler);
  listener->service->limits = limits;
  listener->service->exceptions = exceptions;
  listener->begin_accepting();
  return std::make_unique<Server>(std::move(listener), real);
}

}  // namespace firebreak::net
