// The HTTP/2 server over real sockets: our own session as the client, and the usual tools.
#include <map>
#include <set>

#include "net/http_test_support.h"
#include "wire/h2_session.h"

namespace firebreak::net {
namespace {

// A client that records; bodies are consumed unless told otherwise.
class Client : public wire::H2Handler {
 public:
  struct Stream {
    wire::Headers headers;
    wire::Headers trailers;
    std::string body;
    std::size_t size = 0;
    bool ended = false;
    bool closed = false;
    std::uint32_t code = 0;
  };

  Client(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {
    session = wire::H2Session::client({}, *this);
  }

  wire::StreamId request(std::string method, std::string path, bool end) {
    auto id = session->request({{":method", std::move(method)},
                                {":scheme", "http"},
                                {":authority", "box.test"},
                                {":path", std::move(path)}},
                               end);
    EXPECT_TRUE(id);
    return id.value_or(-1);
  }
  Task<bool> flush() {
    for (;;) {
      std::string out;
      if (!session->take_output(out)) co_return true;
      if (!co_await stream_->write(out, soon())) co_return false;
    }
  }
  // Moves bytes until the condition holds; false: the time passed or the server left.
  Task<bool> until(std::function<bool()> condition, Deadline deadline = soon()) {
    while (!condition()) {
      if (!co_await flush()) co_return condition();
      auto bytes = co_await stream_->read(deadline);
      if (!bytes || bytes->empty()) {
        left = bytes.has_value() || bytes.error().code != Code::timeout;
        co_return condition();
      }
      EXPECT_TRUE(session->receive(*bytes));
    }
    co_return co_await flush();
  }
  Task<Stream> get(std::string path) {
    const wire::StreamId id = request("GET", std::move(path), true);
    EXPECT_TRUE(co_await until([&] { return streams[id].closed; }));
    co_return streams[id];
  }
  void close() { stream_->close(); }

  void on_headers(wire::StreamId id, wire::Headers headers, bool) override {
    streams[id].headers = std::move(headers);
  }
  void on_trailers(wire::StreamId id, wire::Headers trailers) override {
    streams[id].trailers = std::move(trailers);
  }
  void on_data(wire::StreamId id, std::string_view bytes) override {
    streams[id].size += bytes.size();
    if (streams[id].size < 1'000'000) streams[id].body += bytes;
    if (consume) session->consume(id, bytes.size());
  }
  void on_end(wire::StreamId id) override { streams[id].ended = true; }
  void on_closed(wire::StreamId id, std::uint32_t code) override {
    streams[id].closed = true;
    streams[id].code = code;
  }
  void on_goaway(std::uint32_t) override { goaway = true; }

  std::unique_ptr<wire::H2Session> session;
  std::map<wire::StreamId, Stream> streams;
  bool consume = true;
  bool goaway = false;
  bool left = false;

 private:
  std::unique_ptr<ByteStream> stream_;
};

std::string status(const Client::Stream& stream) {
  return std::string(wire::find_header(stream.headers, ":status"));
}

using Http2Test = HttpTest;

TEST_F(Http2Test, ServesByPriorKnowledge) {
  serve([](HttpExchange& exchange) -> Task<void> {
    EXPECT_EQ(exchange.request().version, 2);
    (void)co_await exchange.start(200, {{"connection", "keep-alive"}, {"x-a", "1"}}, soon());
    (void)co_await exchange.write("hello ", soon());
    (void)co_await exchange.write(exchange.request().authority, soon());
    (void)co_await exchange.finish(soon(), {{"x-sum", "7"}});
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    auto stream = co_await client.get("/x");
    EXPECT_EQ(status(stream), "200");
    EXPECT_EQ(stream.body, "hello box.test");
    EXPECT_EQ(wire::find_header(stream.headers, "x-a"), "1");
    EXPECT_EQ(wire::find_header(stream.headers, "connection"), "");
    EXPECT_NE(wire::find_header(stream.headers, "date"), "");
    EXPECT_EQ(wire::find_header(stream.trailers, "x-sum"), "7");
    EXPECT_EQ(stream.code, 0U);
  });
}

TEST_F(Http2Test, RunsManyStreamsAtOnce) {
  std::size_t most = 0;
  std::size_t now = 0;
  serve([&](HttpExchange& exchange) -> Task<void> {
    most = std::max(most, ++now);
    auto body = co_await exchange.read_all(1 << 20, soon());
    co_await pause(50ms);
    --now;
    (void)co_await exchange.reply(200, {}, body.value_or("?"), soon());
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    std::map<wire::StreamId, std::string> sent;
    for (int i = 0; i < 64; ++i) {
      const wire::StreamId id = client.request("POST", "/", false);
      sent[id] = std::string(1000 + static_cast<std::size_t>(i) * 1000, static_cast<char>('!' + i));
      EXPECT_EQ(client.session->write(id, sent[id]), sent[id].size());
      client.session->finish(id);
    }
    EXPECT_TRUE(co_await client.until([&] {
      return std::ranges::all_of(sent, [&](auto& s) { return client.streams[s.first].closed; });
    }));
    for (const auto& [id, body] : sent) EXPECT_TRUE(client.streams[id].body == body) << id;
    EXPECT_EQ(most, 64U);
  });
}

TEST_F(Http2Test, HoldsBackBothWays) {
  std::size_t written = 0;
  Code code = Code::internal;
  serve([&](HttpExchange& exchange) -> Task<void> {
    if (exchange.request().target == "/up") {
      (void)co_await exchange.wait_gone(Deadline::in(500ms));
      (void)co_await exchange.reply(200, {}, "late", soon());
      co_return;
    }
    (void)co_await exchange.start(200, {}, soon());
    const std::string piece(64 * 1024, 'p');
    for (;;) {
      auto wrote = co_await exchange.write(piece, Deadline::in(300ms));
      if (!wrote) {
        code = wrote.error().code;
        co_return;
      }
      written += piece.size();
    }
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    client.consume = false;
    const wire::StreamId down = client.request("GET", "/down", true);
    EXPECT_TRUE(co_await client.until([&] { return client.streams[down].closed; }));
    EXPECT_EQ(code, Code::timeout);
    EXPECT_LT(written, 2UL << 20);
    EXPECT_EQ(client.streams[down].code, 2U);

    const wire::StreamId up = client.request("POST", "/up", false);
    std::size_t sent = 0;
    const std::string piece(64 * 1024, 'u');
    EXPECT_TRUE(co_await client.until([&] {
      sent += client.session->write(up, piece);
      return client.streams[up].closed;
    }));
    EXPECT_LT(sent, 2UL << 20);
    EXPECT_EQ(client.streams[up].body, "late");
    EXPECT_EQ(client.streams[up].code, 0U);
  });
}

TEST_F(Http2Test, TurnsFailedHandlersIntoErrors) {
  bool noticed = false;
  serve([&](HttpExchange& exchange) -> Task<void> {
    const std::string& target = exchange.request().target;
    if (target == "/throw") throw std::runtime_error("bug");
    if (target == "/half") (void)co_await exchange.start(200, {}, soon());
    if (target == "/head") (void)co_await exchange.reply(200, {}, "body", soon());
    if (target == "/wait") noticed = co_await exchange.wait_gone(soon());
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    EXPECT_EQ(status(co_await client.get("/nothing")), "500");
    const auto thrown = co_await client.get("/throw");
    EXPECT_EQ(status(thrown), "500");
    EXPECT_NE(thrown.body.find("\"code\":\"internal\""), std::string::npos) << thrown.body;
    EXPECT_EQ(exceptions("handler"), 1);
    EXPECT_EQ((co_await client.get("/half")).code, 2U);
    const wire::StreamId head = client.request("HEAD", "/head", true);
    EXPECT_TRUE(co_await client.until([&] { return client.streams[head].closed; }));
    EXPECT_EQ(wire::find_header(client.streams[head].headers, "content-length"), "4");
    EXPECT_EQ(client.streams[head].body, "");
    const wire::StreamId wait = client.request("GET", "/wait", true);
    (void)co_await client.flush();
    co_await pause(100ms);
    client.session->reset(wait, wire::H2Error::cancel);
    (void)co_await client.flush();
    co_await pause(100ms);
    EXPECT_TRUE(noticed);
  });
}

TEST_F(Http2Test, NoticesAClientThatLeaves) {
  bool noticed = false;
  serve([&](HttpExchange& exchange) -> Task<void> {
    noticed = co_await exchange.wait_gone(soon());
    EXPECT_FALSE(co_await exchange.reply(200, {}, "x", soon()));
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    client.request("GET", "/", true);
    (void)co_await client.flush();
    co_await pause(100ms);
    client.close();
    co_await pause(100ms);
    EXPECT_TRUE(noticed);
  });
}

TEST_F(Http2Test, DrainsAndEndsIdleConnections) {
  HttpLimits limits;
  limits.idle_timeout = 1s;
  serve(
      [&](HttpExchange& exchange) -> Task<void> {
        co_await pause(300ms);
        (void)co_await exchange.reply(200, {}, "done", soon());
      },
      limits);
  run([&]() -> Task<void> {
    Client idle(co_await connect());
    EXPECT_EQ(status(co_await idle.get("/")), "200");
    EXPECT_FALSE(co_await idle.until([] { return false; }));
    EXPECT_TRUE(idle.goaway);
    EXPECT_TRUE(idle.left);

    Client busy(co_await connect());
    const wire::StreamId id = busy.request("GET", "/", true);
    (void)co_await busy.flush();
    co_await pause(100ms);
    co_await server_->drain(Deadline::in(5s));
    EXPECT_FALSE(co_await busy.until([] { return false; }));
    EXPECT_TRUE(busy.goaway);
    EXPECT_EQ(busy.streams[id].body, "done");
  });
}

TEST_F(Http2Test, EndsConnectionsThatNeverAsk) {
  HttpLimits limits;
  limits.head_timeout = 1s;
  serve(echo, limits);
  run([&]() -> Task<void> {
    Client silent(co_await connect());
    EXPECT_FALSE(co_await silent.until([] { return false; }));
    EXPECT_TRUE(silent.goaway);
    EXPECT_TRUE(silent.left);
  });
}

TEST_F(Http2Test, EndsAfterAnAnswerThatSaysClose) {
  Event closed(io_.get_executor());
  serve([&](HttpExchange& exchange) -> Task<void> {
    const bool last = exchange.request().target == "/last";
    if (!last) (void)co_await closed.wait(soon());
    wire::Headers headers;
    if (last) headers.push_back({"connection", "close"});
    (void)co_await exchange.reply(200, std::move(headers), "done", soon());
  });
  run([&]() -> Task<void> {
    Client client(co_await connect());
    const wire::StreamId open = client.request("GET", "/open", true);
    EXPECT_EQ((co_await client.get("/last")).body, "done");
    EXPECT_TRUE(co_await client.until([&] { return client.goaway; }));
    closed.notify();
    EXPECT_FALSE(co_await client.until([] { return false; }));
    EXPECT_TRUE(client.left);
    EXPECT_EQ(client.streams[open].body, "done");
  });
}

TEST_F(Http2Test, TheRefusedKeepNoConnection) {
  serve(door);
  run([&]() -> Task<void> {
    Client client(co_await connect());
    EXPECT_EQ(status(co_await client.get("/wrong")), "401");
    EXPECT_FALSE(co_await client.until([] { return false; }));
    EXPECT_TRUE(client.goaway);
    EXPECT_TRUE(client.left);
  });
}

TEST_F(Http2Test, StrangersMakeRoomForTheKnown) {
  HttpLimits limits;
  limits.max_connections = 2;
  serve(door, limits);
  run([&]() -> Task<void> {
    Client known(co_await connect());
    EXPECT_EQ(status(co_await known.get("/key")), "200");
    Client stranger(co_await connect());
    EXPECT_EQ(status(co_await stranger.get("/open")), "200");
    Client late(co_await connect());
    EXPECT_EQ(status(co_await late.get("/key")), "200");
    EXPECT_FALSE(co_await stranger.until([] { return false; }));
    EXPECT_TRUE(stranger.left);
    EXPECT_EQ(status(co_await known.get("/key")), "200");
    EXPECT_EQ(status(co_await late.get("/key")), "200");
  });
}

// Through a proxy many share one connection: a refused request leaves the open ones alone.
TEST_F(Http2Test, TheKnownStayWhenOthersOnTheirConnectionAreRefused) {
  Event answer(io_.get_executor());
  HttpLimits limits;
  limits.max_connections = 1;
  serve(
      [&](HttpExchange& exchange) -> Task<void> {
        if (exchange.request().target != "/slow") co_return co_await door(exchange);
        exchange.note_caller(true);
        (void)co_await answer.wait(soon());
        (void)co_await exchange.reply(200, {}, "done", soon());
      },
      limits);
  run([&]() -> Task<void> {
    Client shared(co_await connect());
    const wire::StreamId slow = shared.request("GET", "/slow", true);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(status(co_await shared.get("/wrong")), "401");
    Client late(co_await connect());
    const wire::StreamId waits = late.request("GET", "/key", true);
    EXPECT_FALSE(
        co_await late.until([&] { return late.streams[waits].closed; }, Deadline::in(300ms)));
    answer.notify();
    EXPECT_TRUE(co_await shared.until([&] { return shared.streams[slow].closed; }));
    EXPECT_EQ(shared.streams[slow].body, "done");
    // Nobody known is there any more once the next one is refused.
    EXPECT_EQ(status(co_await shared.get("/wrong")), "401");
    EXPECT_TRUE(co_await late.until([&] { return late.streams[waits].closed; }));
    EXPECT_EQ(status(late.streams[waits]), "200");
  });
}

TEST_F(Http2Test, KeepsWhatHandlersGiveItAsLongAsItLives) {
  std::weak_ptr<void> seen;
  serve([&](HttpExchange& exchange) -> Task<void> {
    const std::string before = exchange.kept() ? "kept" : "new";
    if (!exchange.kept()) seen = exchange.kept() = std::make_shared<int>(1);
    (void)co_await exchange.reply(200, {}, before, soon());
  });
  run([&]() -> Task<void> {
    Client two(co_await connect());
    EXPECT_EQ((co_await two.get("/")).body, "new");
    EXPECT_EQ((co_await two.get("/")).body, "kept");
    two.close();
    while (!seen.expired()) co_await pause(1ms);

    auto one = co_await connect();
    const HttpCall call{.method = "GET", .target = "/", .host = "box.test"};
    for (const char* expected : {"new", "kept"}) {
      const auto reply = co_await http_call(*one, call, soon());
      EXPECT_EQ(reply ? reply->body : reply.error().text(), expected);
    }
    one->close();
    while (!seen.expired()) co_await pause(1ms);
  });
}

TEST_F(Http2Test, SurvivesGarbageAfterThePreface) {
  serve(echo);
  run([&]() -> Task<void> {
    const std::string all =
        co_await raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100, 'x'));
    EXPECT_NE(all, "");
    EXPECT_TRUE((co_await raw("PRI * HTTP/2.0\r\n\r\nXX")).starts_with("HTTP/1.1 "));
    Client client(co_await connect());
    EXPECT_EQ(status(co_await client.get("/ok")), "200");
  });
}

}  // namespace
}  // namespace firebreak::net
