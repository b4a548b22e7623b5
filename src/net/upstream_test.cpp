// Requests to applications: our own server as the application, and peers that break the rules.
#include "net/upstream.h"

#include <deque>

#include "net/http_test_support.h"

namespace firebreak::net {
namespace {

// Says what it is told to, piece by piece; keeps what was written.
class Script : public ByteStream {
 public:
  explicit Script(std::deque<std::string> pieces) : pieces_(std::move(pieces)) {}
  Task<Result<std::string>> read(Deadline) override {
    if (pieces_.empty()) co_return std::string();
    std::string piece = pieces_.front();
    pieces_.pop_front();
    co_return piece;
  }
  Task<Result<>> write(std::string_view bytes, Deadline) override {
    written.append(bytes);
    co_return Result<>();
  }
  Task<Result<>> finish(Deadline) override { co_return Result<>(); }
  void close() override {}

  std::string written;

 private:
  std::deque<std::string> pieces_;
};

class UpstreamTest : public HttpTest {
 protected:
  static UpstreamRequest get(std::string target) {
    return {.method = "GET", .target = std::move(target), .authority = "app.test"};
  }
  static UpstreamRequest post(std::optional<std::uint64_t> length) {
    return {.method = "POST",
            .target = "/p",
            .authority = "app.test",
            .headers = {},
            .has_body = true,
            .length = length};
  }
  static Task<std::string> body_of(UpstreamExchange& exchange) {
    std::string all;
    for (;;) {
      auto piece = co_await exchange.read(soon());
      if (!piece) co_return all + "<" + piece.error().message + ">";
      all += piece->bytes;
      if (piece->last) co_return all;
    }
  }
  // One exchange with a peer that answers so; "<...>" for an error.
  static Task<std::string> scripted(std::deque<std::string> pieces, bool* reusable = nullptr,
                                    std::string method = "GET") {
    auto upstream = Http1Upstream::over(std::make_unique<Script>(std::move(pieces)));
    UpstreamRequest request = get("/");
    request.method = std::move(method);
    (void)co_await upstream->begin(request, soon());
    auto head = co_await upstream->head(soon());
    if (!head) co_return "<" + head.error().message + ">";
    std::string text = std::to_string(head->status) + " " + co_await body_of(*upstream);
    if (reusable != nullptr) *reusable = upstream->reusable();
    co_return text;
  }
};

TEST_F(UpstreamTest, OneConnectionServesManyRequests) {
  serve(echo);
  run([&]() -> Task<void> {
    auto upstream = Http1Upstream::over(co_await connect());
    for (int i = 0; i < 3; ++i) {
      CO_REQUIRE(co_await upstream->begin(get("/x" + std::to_string(i)), soon()));
      auto head = co_await upstream->head(soon());
      CO_REQUIRE(head);
      EXPECT_EQ(head->status, 200);
      EXPECT_EQ(co_await body_of(*upstream), "GET /x" + std::to_string(i) + " app.test");
      EXPECT_TRUE(upstream->reusable());
    }
  });
}

TEST_F(UpstreamTest, BodiesWithAndWithoutALength) {
  serve(echo);
  run([&]() -> Task<void> {
    auto upstream = Http1Upstream::over(co_await connect());
    for (const std::optional<std::uint64_t> length :
         {std::optional<std::uint64_t>(6), std::optional<std::uint64_t>()}) {
      CO_REQUIRE(co_await upstream->begin(post(length), soon()));
      CO_REQUIRE(co_await upstream->write("abc", soon()));
      CO_REQUIRE(co_await upstream->write("def", soon()));
      EXPECT_FALSE(upstream->reusable());
      CO_REQUIRE(co_await upstream->finish(soon()));
      CO_REQUIRE(co_await upstream->head(soon()));
      EXPECT_EQ(co_await body_of(*upstream), "abcdef");
      EXPECT_TRUE(upstream->reusable());
    }
    // Neither more nor less than was announced.
    CO_REQUIRE(co_await upstream->begin(post(3), soon()));
    EXPECT_FALSE(co_await upstream->write("abcd", soon()));
    CO_REQUIRE(co_await upstream->write("ab", soon()));
    EXPECT_FALSE(co_await upstream->finish(soon()));
    EXPECT_FALSE(upstream->reusable());
  });
}

TEST_F(UpstreamTest, AnswersThatEndInManyWays) {
  run([&]() -> Task<void> {
    bool reusable = false;
    EXPECT_EQ(co_await scripted({"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}, &reusable),
              "200 abc");
    EXPECT_TRUE(reusable);
    EXPECT_EQ(
        co_await scripted({"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcEXTRA"}, &reusable),
        "200 abc");
    EXPECT_FALSE(reusable);  // whose bytes would those be
    EXPECT_EQ(co_await scripted({"HTTP/1.0 200 OK\r\n\r\nab", "c"}, &reusable), "200 abc");
    EXPECT_FALSE(reusable);
    EXPECT_EQ(co_await scripted({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
                                 "\r\n0\r\n\r\n"},
                                &reusable),
              "200 abc");
    EXPECT_TRUE(reusable);
    EXPECT_EQ(co_await scripted({"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No "
                                 "Content\r\n\r\n"},
                                &reusable),
              "204 ");
    EXPECT_TRUE(reusable);
    EXPECT_EQ(
        co_await scripted({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, &reusable, "HEAD"),
        "200 ");
    EXPECT_TRUE(reusable);
    EXPECT_EQ(co_await scripted({"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
                                 "0\r\n\r\n"},
                                &reusable),
              "200 ");
    EXPECT_FALSE(reusable);
  });
}

TEST_F(UpstreamTest, BrokenAnswersAreErrors) {
  run([&]() -> Task<void> {
    const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    std::string many;
    for (int i = 0; i < 40; ++i) many += interim;
    for (const std::string& answer : std::vector<std::string>{
             "", "HTTP/1.1 2", "garbage\r\n\r\n", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", many}) {
      const std::string got = co_await scripted({answer});
      EXPECT_NE(got.find('<'), std::string::npos) << answer << " -> " << got;
    }
  });
}

TEST_F(UpstreamTest, HeadersOfTheConnectionStayBehind) {
  run([&]() -> Task<void> {
    auto upstream = Http1Upstream::over(std::make_unique<Script>(
        std::deque<std::string>{"HTTP/1.1 200 OK\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\n"
                                "Keep-Alive: 5\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n"}));
    (void)co_await upstream->begin(get("/"), soon());
    auto head = co_await upstream->head(soon());
    CO_REQUIRE(head);
    EXPECT_EQ(head->headers, (wire::Headers{{"x-kept", "2"}, {"content-length", "0"}}));
  });
}

TEST_F(UpstreamTest, WhatIsCompleteIsReadyAtOnce) {
  run([&]() -> Task<void> {
    auto upstream = Http1Upstream::over(std::make_unique<Script>(std::deque<std::string>{
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nX-T: "
        "1\r\n\r\n"}));
    (void)co_await upstream->begin(get("/"), soon());
    CO_REQUIRE(co_await upstream->head(soon()));
    const auto piece = upstream->ready();
    if (!piece) {
      ADD_FAILURE();
      co_return;
    }
    EXPECT_EQ(piece->bytes, "abc");
    EXPECT_TRUE(piece->last);
    EXPECT_EQ(upstream->trailers(), (wire::Headers{{"x-t", "1"}}));
  });
}

TEST_F(UpstreamTest, Http2CarriesManyAtOnceWithTrailers) {
  serve([](HttpExchange& exchange) -> Task<void> {
    const std::string target = exchange.request().target;
    (void)co_await exchange.start(200, {{"content-type", "a/b"}}, soon());
    for (;;) {
      auto bytes = co_await exchange.read(soon());
      if (!bytes || bytes->empty()) break;
      (void)co_await exchange.write(*bytes, soon());
    }
    (void)co_await exchange.finish(soon(), {{"x-target", target}});
  });
  run([&]() -> Task<void> {
    auto connection = Http2Upstream::over(io_.get_executor(), co_await connect());
    std::vector<std::unique_ptr<UpstreamExchange>> exchanges;
    for (int i = 0; i < 20; ++i) {
      UpstreamRequest request = post({});
      request.target = "/" + std::to_string(i);
      auto exchange = connection->open(request);
      CO_REQUIRE(exchange);
      exchanges.push_back(*std::move(exchange));
    }
    for (int i = 19; i >= 0; --i) {
      UpstreamExchange& exchange = *exchanges[static_cast<std::size_t>(i)];
      // Both ways at the same time: the answer begins before the request ends.
      CO_REQUIRE(co_await exchange.head(soon()));
      CO_REQUIRE(co_await exchange.write("ping", soon()));
      auto piece = co_await exchange.read(soon());
      CO_REQUIRE(piece);
      EXPECT_EQ(piece->bytes, "ping");
      CO_REQUIRE(co_await exchange.finish(soon()));
      EXPECT_EQ(co_await body_of(exchange), "");
      EXPECT_EQ(exchange.trailers(), (wire::Headers{{"x-target", "/" + std::to_string(i)}}));
    }
    exchanges.clear();
    EXPECT_EQ(connection->open_exchanges(), 0U);
    connection->close();
    EXPECT_FALSE(connection->usable());
  });
}

TEST_F(UpstreamTest, Http2ToAServerThatDoesNotSpeakItFails) {
  run([&]() -> Task<void> {
    auto connection = Http2Upstream::over(
        io_.get_executor(),
        std::make_unique<Script>(std::deque<std::string>{"HTTP/1.1 400 Bad Request\r\n\r\n"}));
    // It may have failed already.
    auto exchange = connection->open(get("/"));
    if (exchange) EXPECT_FALSE(co_await (*exchange)->head(soon()));
    EXPECT_FALSE(connection->usable());
    EXPECT_FALSE(connection->open(get("/")));
  });
}

TEST_F(UpstreamTest, ALeftHttp2ExchangeIsCancelled) {
  bool gone = false;
  serve([&gone](HttpExchange& exchange) -> Task<void> {
    gone = co_await exchange.wait_gone(soon());
  });
  run([&]() -> Task<void> {
    auto connection = Http2Upstream::over(io_.get_executor(), co_await connect());
    {
      auto exchange = connection->open(post({}));
      CO_REQUIRE(exchange);
      CO_REQUIRE(co_await (*exchange)->write("x", soon()));
      co_await pause(50ms);
    }
    for (int i = 0; i < 200 && !gone; ++i) co_await pause(10ms);
    EXPECT_TRUE(gone);
    EXPECT_TRUE(connection->usable());
    connection->close();
  });
}

}  // namespace
}  // namespace firebreak::net
