// For tests of HTTP over real sockets: an event loop, a server on a free port, raw connections.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"
#include "obs/exceptions.h"

// ASSERT_TRUE of a Result inside a coroutine.
#define CO_REQUIRE(result)                    \
  if (!(result)) {                            \
    ADD_FAILURE() << (result).error().text(); \
    co_return;                                \
  }

namespace firebreak::net {

using namespace std::chrono_literals;

inline Deadline soon() {
  return Deadline::in(10s);
}

class HttpTest : public testing::Test {
 protected:
  // The server's tasks end before the loop goes.
  void TearDown() override {
    server_.reset();
    while (io_.poll_one() > 0) {
    }
  }

  void serve(HttpHandler handler, HttpLimits limits = {}, std::optional<TlsFiles> tls = {}) {
    auto server = HttpServer::listen(io_.get_executor(), "127.0.0.1:0", std::move(tls),
                                     std::move(handler), limits, obs::Exceptions(log_, metrics_));
    ASSERT_TRUE(server) << server.error().text();
    server_ = *std::move(server);
  }

  // Runs one coroutine to its end.
  void run(std::function<Task<void>()> body, std::chrono::seconds limit = 60s) {
    bool done = false;
    asio::co_spawn(
        io_,
        [&]() -> Task<void> {
          co_await body();
          done = true;
        },
        [](const std::exception_ptr& thrown) {
          if (thrown) std::rethrow_exception(thrown);
        });
    const Deadline deadline = Deadline::in(limit);
    while (!done && !deadline.passed() && io_.run_one_for(1s) + 1 > 0) io_.restart();
    ASSERT_TRUE(done) << "hung";
  }

  Task<std::unique_ptr<ByteStream>> connect() {
    auto stream = co_await connect_url("http://" + server_->address(), "", soon());
    EXPECT_TRUE(stream) << stream.error().text();
    co_return stream ? *std::move(stream) : nullptr;
  }

  // Sends bytes as they are and returns all that comes until the server closes.
  Task<std::string> raw(std::string bytes) {
    auto stream = co_await connect();
    if (!bytes.empty()) (void)co_await stream->write(bytes, soon());
    co_return co_await read_to_end(*stream);
  }
  static Task<std::string> read_to_end(ByteStream& stream) {
    std::string all;
    for (;;) {
      auto got = co_await stream.read(soon());
      if (!got) all += "<" + got.error().message + ">";
      if (!got || got->empty()) co_return all;
      all += *got;
    }
  }
  static Task<std::string> read_until(ByteStream& stream, std::string_view end) {
    std::string all;
    while (all.find(end) == std::string::npos) {
      auto got = co_await stream.read(soon());
      if (!got || got->empty()) break;
      all += *got;
    }
    co_return all;
  }
  Task<void> pause(std::chrono::milliseconds time) {
    asio::steady_timer timer(io_, time);
    (void)co_await timer.async_wait(kNoThrow);
  }

  double exceptions(std::string_view where) const {
    return metrics_.value("firebreak_exceptions_total", obs::label("where", where));
  }

  obs::Log log_{-1, obs::LogFormat::text, obs::Level::error};
  obs::Metrics metrics_;
  asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
};

// Answers with the request's body, or its method and target when it has none.
inline Task<void> echo(HttpExchange& exchange) {
  auto body = co_await exchange.read_all(64UL << 20, soon());
  if (!body) co_return;
  const HttpRequest& request = exchange.request();
  if (body->empty()) *body = request.method + " " + request.target + " " + request.authority;
  (void)co_await exchange.reply(200, {{"content-type", "text/plain"}}, *std::move(body), soon());
}

// A server with keys: who asks for /key is known, /open is for everybody, the rest is refused.
inline Task<void> door(HttpExchange& exchange) {
  const bool known = exchange.request().target == "/key";
  const bool open = exchange.request().target == "/open";
  if (!open) exchange.note_caller(known);
  (void)co_await exchange.reply(known || open ? 200 : 401, {}, "answer", soon());
}

}  // namespace firebreak::net
