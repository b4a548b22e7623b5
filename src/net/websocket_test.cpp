// WebSocket over real sockets: our two ends against each other, and a peer that speaks frames.
#include "net/websocket.h"

#include "net/http_test_support.h"
#include "wire/websocket.h"

namespace firebreak::net {
namespace {

using wire::WsOpcode;

class WebSocketTest : public HttpTest {
 protected:
  // A server that sends every message back, and records how it ended.
  void serve_echo(std::size_t max_message = kMaxWebSocketMessage) {
    serve([this, max_message](HttpExchange& exchange) -> Task<void> {
      const auto offered = websocket_protocols(exchange.request());
      const std::string chosen = offered.empty() ? "" : offered.back();
      auto socket = co_await accept_websocket(exchange, chosen, soon(), max_message);
      if (!socket) {
        (void)co_await exchange.reply(426, {}, socket.error().message, soon());
        co_return;
      }
      for (;;) {
        auto message = co_await (*socket)->read(soon());
        if (!message) {
          error_ = message.error().message;
          break;
        }
        if (!*message) break;
        (void)co_await (*socket)->write((*message)->text, (*message)->data, soon());
      }
      code_ = (*socket)->close_code();
      reason_ = (*socket)->close_reason();
      done_ = true;
    });
  }
  Task<Result<std::unique_ptr<WebSocket>>> open(std::vector<std::string> protocols = {}) {
    co_return co_await open_websocket(co_await connect(), "box.test", "/ws", {}, protocols, soon());
  }
  Task<void> until_done() {
    for (int i = 0; i < 200 && !done_; ++i) co_await pause(10ms);
    EXPECT_TRUE(done_);
  }
  // A handshake by hand; the stream speaks frames afterwards.
  Task<std::unique_ptr<ByteStream>> open_raw() {
    auto stream = co_await connect();
    (void)co_await stream->write(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        soon());
    const std::string head = co_await read_until(*stream, "\r\n\r\n");
    EXPECT_NE(head.find("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
              std::string::npos)
        << head;
    co_return stream;
  }
  static std::string frame(WsOpcode opcode, std::string_view payload, bool fin = true) {
    std::string out;
    wire::put_ws_frame(opcode, payload, wire::WsMask{std::byte{1}, std::byte{2}}, out, fin);
    return out;
  }

  std::string error_;
  std::uint16_t code_ = 0;
  std::string reason_;
  bool done_ = false;
};

TEST_F(WebSocketTest, EchoesMessages) {
  serve_echo();
  run([&]() -> Task<void> {
    auto socket = co_await open();
    CO_REQUIRE(socket);
    for (const std::size_t size : {0UL, 1UL, 125UL, 126UL, 65535UL, 65536UL, 1UL << 20}) {
      const std::string data(size, 'd');
      CO_REQUIRE(co_await (*socket)->write(size % 2 == 0, data, soon()));
      auto message = co_await (*socket)->read(soon());
      CO_REQUIRE(message);
      EXPECT_EQ((*message)->data, data);
      EXPECT_EQ((*message)->text, size % 2 == 0);
    }
    CO_REQUIRE(co_await (*socket)->ping(soon()));
    CO_REQUIRE(co_await (*socket)->close(4001, "enough", soon()));
    auto end = co_await (*socket)->read(soon());
    CO_REQUIRE(end);
    EXPECT_FALSE(*end);
    EXPECT_EQ((*socket)->close_code(), 4001);
    co_await until_done();
    EXPECT_EQ(code_, 4001);
    EXPECT_EQ(reason_, "enough");
    EXPECT_FALSE(co_await (*socket)->write(true, "late", soon()));
  });
}

TEST_F(WebSocketTest, NegotiatesAProtocol) {
  serve([](HttpExchange& exchange) -> Task<void> {
    EXPECT_EQ(websocket_protocols(exchange.request()), (std::vector<std::string>{"a", "b"}));
    const std::string chosen = exchange.request().target == "/ws" ? "b" : "c";
    auto socket = co_await accept_websocket(exchange, chosen, soon());
    if (socket) (void)co_await (*socket)->read(soon());
  });
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await open({"a", "b"}));
    auto wrong = co_await open_websocket(co_await connect(), "a", "/c", {}, {"a", "b"}, soon());
    EXPECT_FALSE(wrong);
  });
}

TEST_F(WebSocketTest, JoinsFragmentsAndAnswersPings) {
  serve_echo();
  run([&]() -> Task<void> {
    auto stream = co_await open_raw();
    const std::string sent = frame(WsOpcode::text, "frag", false) + frame(WsOpcode::ping, "p") +
                             frame(WsOpcode::continuation, "ment", false) +
                             frame(WsOpcode::continuation, "ed");
    for (const char c : sent) (void)co_await stream->write(std::string_view(&c, 1), soon());
    EXPECT_EQ(co_await read_until(*stream, "fragmented"),
              std::string("\x8A\x01p\x81\x0A", 5) + "fragmented");
    (void)co_await stream->write(frame(WsOpcode::close, "\x03\xE8"), soon());
    EXPECT_EQ(co_await read_to_end(*stream), "\x88\x02\x03\xE8");
    co_await until_done();
    EXPECT_EQ(code_, 1000);
  });
}

TEST_F(WebSocketTest, EndsWithTheCodeOfWhatWasWrong) {
  serve_echo(1000);
  run([&]() -> Task<void> {
    std::string unmasked;
    wire::put_ws_frame(WsOpcode::text, "x", std::nullopt, unmasked);
    const std::pair<std::string, std::uint16_t> cases[] = {
        {unmasked, 1002},
        {frame(WsOpcode::text, "\xFF"), 1007},
        {frame(WsOpcode::binary, std::string(1001, 'x')), 1009},
        {frame(WsOpcode::continuation, "x"), 1002},
    };
    for (const auto& [bytes, code] : cases) {
      auto stream = co_await open_raw();
      (void)co_await stream->write(bytes, soon());
      const std::string answer = co_await read_to_end(*stream);
      if (answer.size() < 4) {
        ADD_FAILURE() << "no close for " << code;
        continue;
      }
      EXPECT_EQ(answer[0], '\x88');
      EXPECT_EQ((static_cast<std::uint8_t>(answer[2]) << 8) | static_cast<std::uint8_t>(answer[3]),
                code);
    }
  });
}

TEST_F(WebSocketTest, ReportsAPeerThatJustLeaves) {
  serve_echo();
  run([&]() -> Task<void> {
    auto stream = co_await open_raw();
    stream->close();
    co_await until_done();
    EXPECT_EQ(code_, 1006);
  });
}

TEST_F(WebSocketTest, RefusesOtherRequests) {
  serve_echo();
  run([&]() -> Task<void> {
    const HttpCall call{.host = "a"};
    auto stream = co_await connect();
    EXPECT_EQ((co_await http_call(*stream, call, soon()))->status, 426);
    auto refused = co_await open_websocket(co_await connect(), "a", "/",
                                           {{"sec-websocket-version", "12"}}, {}, soon());
    EXPECT_EQ(refused.error().code, Code::unavailable);
  });
}

TEST_F(WebSocketTest, TellsWhyItWasRefused) {
  serve([](HttpExchange& exchange) -> Task<void> {
    (void)co_await exchange.reply(404, {}, "there is no such room", soon());
  });
  run([&]() -> Task<void> {
    auto refused = co_await open();
    EXPECT_EQ(refused.error().code, Code::not_found);
    EXPECT_EQ(refused.error().detail, "there is no such room");
  });
}

}  // namespace
}  // namespace firebreak::net
