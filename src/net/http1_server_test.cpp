// The HTTP/1.1 server over real sockets, against honest, odd and hostile clients.
#include "base/json.h"
#include "net/http_test_support.h"

namespace firebreak::net {
namespace {

HttpCall call_of(std::string method, std::string target, std::string body = {}) {
  return {.method = std::move(method),
          .target = std::move(target),
          .host = "box.test",
          .headers = {},
          .body = std::move(body)};
}

TEST_F(HttpTest, ServesManyRequestsOnOneConnection) {
  serve(echo);
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    for (int i = 0; i < 1000; ++i) {
      const HttpCall call = call_of("GET", "/x/" + std::to_string(i));
      auto reply = co_await http_call(*stream, call, soon());
      CO_REQUIRE(reply);
      EXPECT_EQ(reply->status, 200);
      EXPECT_EQ(reply->body, "GET /x/" + std::to_string(i) + " box.test");
      EXPECT_TRUE(reply->keep_alive);
      EXPECT_NE(wire::find_header(reply->headers, "date"), "");
      EXPECT_EQ(wire::find_header(reply->headers, "server"), "");
    }
  });
}

TEST_F(HttpTest, CarriesBodiesBothWays) {
  serve(echo);
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    const std::string body(5'000'000, 'b');
    const HttpCall call = call_of("POST", "/", body);
    auto reply = co_await http_call(*stream, call, soon());
    CO_REQUIRE(reply);
    EXPECT_EQ(reply->body, body);
  });
}

TEST_F(HttpTest, StreamsChunkedBothWaysWithTrailers) {
  serve([](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.start(200, {}, soon());
    for (;;) {
      auto bytes = co_await exchange.read(soon());
      if (!bytes || bytes->empty()) break;
      (void)co_await exchange.write(*bytes, soon());
    }
    (void)co_await exchange.finish(soon(), {{"x-sum", "7"}});
  });
  run([&]() -> Task<void> {
    auto started =
        co_await HttpClientStream::start(co_await connect(), call_of("POST", "/"), true, soon());
    auto& client = **started;
    auto head = co_await client.head(soon());
    EXPECT_EQ(head->status, 200);
    for (int i = 0; i < 20; ++i) {
      const std::string piece = "piece " + std::to_string(i);
      (void)co_await client.write(piece, soon());
      std::string got;
      while (got.size() < piece.size())
        got += (co_await client.read(soon())).value_or("!!!!!!!!!!");
      EXPECT_EQ(got, piece);
    }
    (void)co_await client.finish(soon());
    EXPECT_EQ(*co_await client.read(soon()), "");
    const std::string all = co_await raw(
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        "3;ext=1\r\nabc\r\n0\r\nx-t: 1\r\n\r\n");
    EXPECT_TRUE(all.ends_with("3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n")) << all;
  });
}

TEST_F(HttpTest, AnswersPipelinedRequestsInOrder) {
  serve(echo);
  run([&]() -> Task<void> {
    const std::string all = co_await raw(
        "GET /1 HTTP/1.1\r\nhost: a\r\n\r\nPOST /2 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"
        "two\r\nGET http://other/3 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    const auto one = all.find("GET /1 a");
    const auto two = all.find("two");
    const auto three = all.find("GET /3 other");
    EXPECT_LT(one, two);
    EXPECT_LT(two, three);
    EXPECT_NE(three, std::string::npos) << all;
  });
}

TEST_F(HttpTest, AnswersWithoutBodyWhereNoneIsAllowed) {
  serve([](HttpExchange& exchange) -> Task<void> {
    const int status = exchange.request().target == "/204" ? 204 : 200;
    (void)co_await exchange.reply(status, {}, "body", soon());
  });
  run([&]() -> Task<void> {
    const std::string head =
        co_await raw("HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
    EXPECT_NE(head.find("content-length: 4\r\n"), std::string::npos);
    const std::string none =
        co_await raw("GET /204 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    EXPECT_TRUE(none.ends_with("\r\n\r\n")) << none;
    EXPECT_EQ(none.find("content-length"), std::string::npos);
    const std::string old = co_await raw("GET / HTTP/1.0\r\n\r\n");
    EXPECT_TRUE(old.ends_with("body")) << old;
  });
}

TEST_F(HttpTest, TurnsFailedHandlersIntoErrors) {
  serve([](HttpExchange& exchange) -> Task<void> {
    const std::string& target = exchange.request().target;
    if (target == "/throw") throw std::runtime_error("bug");
    if (target == "/short") {
      (void)co_await exchange.start(200, {{"content-length", "10"}}, soon());
      (void)co_await exchange.write("abc", soon());
      EXPECT_FALSE(co_await exchange.finish(soon()));
    }
    if (target == "/half") (void)co_await exchange.start(200, {}, soon());
    if (target == "/split") {
      EXPECT_FALSE(co_await exchange.reply(200, {{"x-a", "1\r\nx-b: 2"}}, "", soon()));
    }
  });
  run([&]() -> Task<void> {
    for (const char* target : {"/nothing", "/throw", "/split"}) {
      auto stream = co_await connect();
      const HttpCall call = call_of("GET", target);
      for (int i = 0; i < 2; ++i) {
        const auto reply = co_await http_call(*stream, call, soon());
        CO_REQUIRE(reply);
        EXPECT_EQ(reply->status, 500) << target;
        EXPECT_TRUE(parse_json_object(reply->body)) << target << reply->body;
      }
    }
    for (const char* target : {"/short", "/half"}) {
      auto stream = co_await connect();
      const HttpCall call = call_of("GET", target);
      EXPECT_FALSE(co_await http_call(*stream, call, soon())) << target;
    }
  });
  EXPECT_EQ(exceptions("handler"), 2);
}

TEST_F(HttpTest, ReportsWhatAHandlerThrowsAfterItsHead) {
  serve([](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.start(200, {}, soon());
    throw std::runtime_error("half-way");
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    EXPECT_FALSE(co_await http_call(*stream, call_of("GET", "/?token=secret"), soon()));
  });
  EXPECT_EQ(exceptions("handler"), 1);
}

TEST_F(HttpTest, SendsContinueOnlyWhenTheBodyIsWanted) {
  serve([](HttpExchange& exchange) -> Task<void> {
    if (exchange.request().target == "/no") {
      (void)co_await exchange.reply(413, {}, "", soon());
    } else {
      co_await echo(exchange);
    }
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    (void)co_await stream->write(
        "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n", soon());
    EXPECT_EQ(co_await read_until(*stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    (void)co_await stream->write("body", soon());
    EXPECT_TRUE((co_await read_until(*stream, "body")).starts_with("HTTP/1.1 200 OK"));
    const std::string refused = co_await raw(
        "POST /no HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n");
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 413 ")) << refused;
    EXPECT_NE(refused.find("connection: close"), std::string::npos);
  });
}

TEST_F(HttpTest, KeepsTheConnectionAfterASmallUnreadBodyOnly) {
  serve([](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.reply(404, {}, "no", soon());
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    const HttpCall small = call_of("POST", "/", std::string(100'000, 's'));
    for (int i = 0; i < 3; ++i) {
      auto reply = co_await http_call(*stream, small, soon());
      CO_REQUIRE(reply);
      EXPECT_EQ(reply->status, 404);
    }
    const HttpCall large = call_of("POST", "/", std::string(30'000'000, 'l'));
    auto reply = co_await http_call(*stream, large, soon());
    CO_REQUIRE(reply);
    EXPECT_EQ(reply->status, 404);
  });
}

TEST_F(HttpTest, RefusesBadHeadsAndCloses) {
  HttpLimits limits;
  limits.max_head_bytes = 2000;
  serve(echo, limits);
  run([&]() -> Task<void> {
    const std::pair<std::string, std::string> cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"},
        {"GET / HTTP/3.0\r\nhost: a\r\n\r\n", "505"},
        {"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n", "501"},
        {"GET / HTTP/1.1\r\nhost: a\r\nx: " + std::string(3000, 'x') + "\r\n\r\n", "431"},
        {"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
         "400"},
    };
    for (const auto& [request, status] : cases) {
      const std::string all = co_await raw(request + "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
      EXPECT_TRUE(all.starts_with("HTTP/1.1 " + status)) << request << all;
      EXPECT_EQ(all.find("smuggled"), std::string::npos) << request;
    }
  });
}

TEST_F(HttpTest, ClosesSlowAndIdleClients) {
  HttpLimits limits;
  limits.head_timeout = 1s;
  limits.idle_timeout = 1s;
  serve(echo, limits);
  run([&]() -> Task<void> {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(co_await raw(""), "");
    EXPECT_TRUE((co_await raw("GET / HTT")).starts_with("HTTP/1.1 408 "));
    auto idle = co_await connect();
    const HttpCall call = call_of("GET", "/");
    EXPECT_TRUE(co_await http_call(*idle, call, soon()));
    EXPECT_EQ(co_await read_to_end(*idle), "");
    // A byte now and then does not keep the head open.
    auto drip = co_await connect();
    bool open = true;
    for (int i = 0; i < 50 && open; ++i) {
      open = (co_await drip->write("x", soon())).has_value();
      co_await pause(100ms);
    }
    EXPECT_FALSE(open);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  });
}

TEST_F(HttpTest, TakesALargeBodyWhenItIsRead) {
  serve([&](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.wait_gone(Deadline::in(500ms));  // the client fills what it can
    std::size_t size = 0;
    for (;;) {
      auto bytes = co_await exchange.read(soon());
      if (!bytes || bytes->empty()) break;
      size += bytes->size();
    }
    (void)co_await exchange.reply(200, {}, std::to_string(size), soon());
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    const HttpCall call = call_of("PUT", "/", std::string(64UL << 20, 'p'));
    auto reply = co_await http_call(*stream, call, soon());
    CO_REQUIRE(reply);
    EXPECT_EQ(reply->body, std::to_string(call.body.size()));
  });
}

TEST_F(HttpTest, BoundsWhatItTakesOfAnUnreadBody) {
  serve([&](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.wait_gone(Deadline::in(2s));
    (void)co_await exchange.reply(200, {}, "late", soon());
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    (void)co_await stream->write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 67108864\r\n\r\n",
                                 soon());
    const std::string piece(64 * 1024, 'p');
    std::size_t sent = 0;
    while (sent < (64UL << 20) && co_await stream->write(piece, Deadline::in(500ms)))
      sent += piece.size();
    EXPECT_LT(sent, 16UL << 20);  // the kernel's buffers and little of ours
  });
}

TEST_F(HttpTest, WaitsForAClientThatDoesNotRead) {
  std::size_t written = 0;
  Code code = Code::internal;
  serve([&](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.start(200, {}, soon());
    const std::string piece(64 * 1024, 'p');
    for (;;) {
      auto wrote = co_await exchange.write(piece, Deadline::in(500ms));
      if (!wrote) {
        code = wrote.error().code;
        co_return;
      }
      written += piece.size();
    }
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    (void)co_await stream->write("GET / HTTP/1.1\r\nhost: a\r\n\r\n", soon());
    co_await pause(1500ms);
    EXPECT_EQ(code, Code::timeout);
    EXPECT_LT(written, 16UL << 20);
  });
}

TEST_F(HttpTest, NoticesAClientThatLeaves) {
  bool noticed = false;
  serve([&](HttpExchange& exchange) -> Task<void> {
    EXPECT_FALSE(co_await exchange.wait_gone(Deadline::in(200ms)));
    noticed = co_await exchange.wait_gone(soon());
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    (void)co_await stream->write("GET / HTTP/1.1\r\nhost: a\r\n\r\n", soon());
    co_await pause(400ms);
    EXPECT_FALSE(noticed);
    stream->close();
    co_await pause(100ms);
    EXPECT_TRUE(noticed);
  });
}

TEST_F(HttpTest, HandsTheConnectionOverOnUpgrade) {
  serve([&](HttpExchange& exchange) -> Task<void> {
    auto stream = co_await exchange.upgrade({{"upgrade", "echo"}}, soon());
    if (!stream) {
      (void)co_await exchange.reply(426, {}, stream.error().message, soon());
      co_return;
    }
    for (;;) {
      auto bytes = co_await (*stream)->read(soon());
      if (!bytes || bytes->empty()) break;
      (void)co_await (*stream)->write(*bytes, soon());
    }
    (void)co_await (*stream)->write("bye", soon());
  });
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    (void)co_await stream->write(
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\nearly", soon());
    const std::string head = co_await read_until(*stream, "early");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n")) << head;
    (void)co_await stream->write("later", soon());
    EXPECT_EQ(co_await read_until(*stream, "later"), "later");
    (void)co_await stream->finish(soon());
    EXPECT_EQ(co_await read_to_end(*stream), "bye");
    const std::string plain =
        co_await raw("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    EXPECT_TRUE(plain.starts_with("HTTP/1.1 426 "));
  });
}

TEST_F(HttpTest, ServesNoRequestBehindAnUpgrade) {
  int requests = 0;
  serve([&](HttpExchange& exchange) -> Task<void> {
    ++requests;
    (void)co_await exchange.upgrade({{"upgrade", "x"}}, soon());
  });
  run([&]() -> Task<void> {
    const std::string request =
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    (void)co_await raw(request + request);
    co_await pause(50ms);
    EXPECT_EQ(requests, 1);
  });
}

TEST_F(HttpTest, DrainsOpenRequestsAndCutsLateOnes) {
  bool slow_done = false;
  bool stuck_noticed = false;
  serve([&](HttpExchange& exchange) -> Task<void> {
    if (exchange.request().target == "/slow") {
      co_await pause(500ms);
      (void)co_await exchange.reply(200, {}, "done", soon());
      slow_done = true;
    } else {
      stuck_noticed = co_await exchange.wait_gone(Deadline::in(30s));
    }
  });
  run([&]() -> Task<void> {
    auto idle = co_await connect();
    auto slow = co_await connect();
    auto stuck = co_await connect();
    (void)co_await slow->write("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n", soon());
    (void)co_await stuck->write("GET /stuck HTTP/1.1\r\nhost: a\r\n\r\n", soon());
    co_await pause(100ms);
    const auto begin = std::chrono::steady_clock::now();
    co_await server_->drain(Deadline::in(1s));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
    EXPECT_TRUE(slow_done);
    EXPECT_TRUE(stuck_noticed);
    const std::string answer = co_await read_to_end(*slow);
    EXPECT_NE(answer.find("connection: close"), std::string::npos);
    EXPECT_TRUE(answer.ends_with("done")) << answer;
    EXPECT_FALSE(co_await connect_url("http://" + server_->address(), "", soon()));
  });
}

TEST_F(HttpTest, LimitsConnections) {
  HttpLimits limits;
  limits.max_connections = 2;
  serve(door, limits);
  run([&]() -> Task<void> {
    auto one = co_await connect();
    auto two = co_await connect();
    const HttpCall call = call_of("GET", "/key");
    EXPECT_TRUE(co_await http_call(*one, call, soon()));
    EXPECT_TRUE(co_await http_call(*two, call, soon()));
    auto three = co_await connect();
    EXPECT_FALSE(co_await http_call(*three, call, Deadline::in(300ms)));
    one->close();
    EXPECT_TRUE(co_await read_until(*three, "answer") != "");
  });
}

// Whoever only connects, however often, keeps nobody out.
TEST_F(HttpTest, TheSilentMakeRoom) {
  HttpLimits limits;
  limits.max_connections = 2;
  serve(door, limits);
  run([&]() -> Task<void> {
    const HttpCall call = call_of("GET", "/key");
    auto heard = co_await connect();
    EXPECT_TRUE(co_await http_call(*heard, call, soon()));
    auto silent = co_await connect();
    auto half = co_await connect();
    EXPECT_TRUE(co_await half->write("GET / HTTP/1.1\r\n", soon()));
    EXPECT_EQ(co_await silent->read(soon()), std::string());
    auto late = co_await connect();
    EXPECT_TRUE(co_await http_call(*late, call, soon()));
    EXPECT_EQ(co_await half->read(soon()), std::string());
    EXPECT_TRUE(co_await http_call(*heard, call, soon()));
  });
}

TEST_F(HttpTest, TheRefusedKeepNoConnection) {
  serve(door);
  run([&]() -> Task<void> {
    auto client = co_await connect();
    (void)co_await client->write("GET /wrong HTTP/1.1\r\nhost: a\r\n\r\n", soon());
    const std::string answer = co_await read_to_end(*client);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 ")) << answer;
    EXPECT_NE(answer.find("connection: close"), std::string::npos) << answer;
    EXPECT_TRUE(answer.ends_with("answer")) << answer;
  });
}

// Whoever asks without being known, however often, keeps nobody out; and nobody known has to go.
TEST_F(HttpTest, StrangersMakeRoomForTheKnown) {
  HttpLimits limits;
  limits.max_connections = 2;
  serve(door, limits);
  run([&]() -> Task<void> {
    const HttpCall key = call_of("GET", "/key");
    auto known = co_await connect();
    EXPECT_TRUE(co_await http_call(*known, key, soon()));
    auto stranger = co_await connect();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(co_await http_call(*stranger, call_of("GET", "/open"), soon()));
      auto next = co_await connect();
      EXPECT_EQ(co_await stranger->read(soon()), std::string());
      stranger = std::move(next);
    }
    auto late = co_await connect();
    EXPECT_TRUE(co_await http_call(*late, key, soon()));
    EXPECT_EQ(co_await stranger->read(soon()), std::string());
    EXPECT_TRUE(co_await http_call(*known, key, soon()));
    EXPECT_TRUE(co_await http_call(*late, key, soon()));
  });
}

// One mistake does not cost a connection on which somebody was known, but nothing keeps its place.
TEST_F(HttpTest, WhoIsNoLongerKnownMakesRoom) {
  HttpLimits limits;
  limits.max_connections = 1;
  serve(door, limits);
  run([&]() -> Task<void> {
    const HttpCall key = call_of("GET", "/key");
    const HttpCall wrong = call_of("GET", "/wrong");
    auto client = co_await connect();
    for (const HttpCall& call : {key, wrong, key, wrong})
      EXPECT_TRUE(co_await http_call(*client, call, soon()));
    auto late = co_await connect();
    EXPECT_TRUE(co_await http_call(*late, key, soon()));
    EXPECT_EQ(co_await client->read(soon()), std::string());
    EXPECT_TRUE(co_await http_call(*late, wrong, soon()));
    EXPECT_TRUE(co_await http_call(*late, wrong, soon()));
    EXPECT_EQ(co_await late->read(soon()), std::string());
  });
}

TEST(Target, IsSplitAndDecoded) {
  const auto target = parse_target("/a%2Fb/c/?x=1+2&y=%26&flag");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"a/b", "c", ""}));
  EXPECT_EQ(target->query_value("x"), "1 2");
  EXPECT_EQ(target->query_value("y"), "&");
  EXPECT_TRUE(target->has_query("flag"));
  EXPECT_FALSE(target->has_query("z"));
  EXPECT_TRUE(parse_target("/")->segments.empty());
  EXPECT_FALSE(parse_target("/%2"));
  EXPECT_FALSE(parse_target("*"));
}

}  // namespace
}  // namespace firebreak::net
