#include "wire/websocket.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

using From = WebSocketDecoder::From;

const WsMask kMask{std::byte{0x37}, std::byte{0xfa}, std::byte{0x21}, std::byte{0x3d}};

struct Decoded {
  std::vector<WsEvent> events;
  std::optional<WsClose> error;
};

Decoded decode(From from, std::string_view bytes, std::size_t piece = 1 << 20,
               std::size_t limit = 1 << 20) {
  Decoded out;
  WebSocketDecoder decoder(from, limit);
  while (!bytes.empty()) {
    std::string_view input = bytes.substr(0, piece);
    bytes.remove_prefix(input.size());
    for (;;) {
      auto event = decoder.next(input);
      if (!event) {
        out.error = decoder.error_code();
        return out;
      }
      if (!*event) break;
      out.events.push_back(**event);
    }
    EXPECT_TRUE(input.empty());
  }
  return out;
}

std::string frame(WsOpcode opcode, std::string_view payload, bool fin = true, bool mask = true) {
  std::string out;
  put_ws_frame(opcode, payload, mask ? std::optional(kMask) : std::nullopt, out, fin);
  return out;
}

// RFC 6455 section 5.7 and 1.3.
TEST(WebSocketFrames, MatchTheVectorsOfTheStandard) {
  EXPECT_EQ(frame(WsOpcode::text, "Hello", true, false), "\x81\x05Hello");
  EXPECT_EQ(frame(WsOpcode::text, "Hello"), "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
  EXPECT_EQ(websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_TRUE(is_websocket_key("dGhlIHNhbXBsZSBub25jZQ=="));
  EXPECT_TRUE(is_websocket_key(make_websocket_key()));
  EXPECT_FALSE(is_websocket_key("short=="));
  EXPECT_FALSE(is_websocket_key("dGhlIHNhbXBsZSBub25jZ\r=="));
}

TEST(WebSocketFrames, ComeBackInAnyPieces) {
  std::mt19937 rng(3);
  for (const bool client : {true, false}) {
    std::string wire;
    std::vector<WsEvent> sent;
    for (const std::size_t size : {0U, 1U, 125U, 126U, 127U, 65535U, 65536U, 100000U}) {
      std::string data(size, '\0');
      for (char& c : data) c = static_cast<char>(rng());
      sent.push_back({WsOpcode::binary, data, 0});
      const std::size_t half = size / 2;
      wire += frame(WsOpcode::binary, data.substr(0, half), false, client);
      wire += frame(WsOpcode::ping, "p", true, client);
      wire += frame(WsOpcode::continuation, data.substr(half), true, client);
      sent.insert(sent.end() - 1, {WsOpcode::ping, "p", 0});
    }
    wire += frame(WsOpcode::close, ws_close_payload(3000, "bye"), true, client) + "ignored";
    sent.push_back({WsOpcode::close, "bye", 3000});
    for (const std::size_t piece : {1U, 13U, 4096U, 1U << 20}) {
      const Decoded decoded = decode(client ? From::client : From::server, wire, piece);
      EXPECT_FALSE(decoded.error);
      EXPECT_EQ(decoded.events, sent);
    }
  }
}

TEST(WebSocketFrames, AreRefusedWhenTheyBreakTheRules) {
  const std::string long_length = std::string("\x82\xfe\x00\x05", 4) + "mask12345";
  const std::string longer_length = std::string("\x82\xff\0\0\0\0\0\0\xff\xff", 10) + "mask";
  const std::string huge = std::string("\x82\xff\xff\0\0\0\0\0\0\0", 10) + "mask";
  const std::pair<std::string, WsClose> cases[] = {
      {frame(WsOpcode::text, "x", true, false), WsClose::protocol},
      {"\xC1\x80mask", WsClose::protocol},
      {"\x83\x80mask", WsClose::protocol},
      {"\x8B\x80mask", WsClose::protocol},
      {frame(WsOpcode::continuation, "x"), WsClose::protocol},
      {frame(WsOpcode::text, "x", false) + frame(WsOpcode::text, "y"), WsClose::protocol},
      {frame(WsOpcode::ping, "x", false), WsClose::protocol},
      {frame(WsOpcode::ping, std::string(126, 'x')), WsClose::protocol},
      {long_length, WsClose::protocol},
      {longer_length, WsClose::protocol},
      {huge, WsClose::protocol},
      {frame(WsOpcode::close, "x"), WsClose::protocol},
      {frame(WsOpcode::close, std::string("\x03\xED", 2)), WsClose::protocol},
      {frame(WsOpcode::close, std::string("\x00\x01", 2)), WsClose::protocol},
      {frame(WsOpcode::close, std::string("\x03\xE8\xFF", 3)), WsClose::bad_data},
      {frame(WsOpcode::text, "\xC3"), WsClose::bad_data},
      {frame(WsOpcode::binary, std::string(1001, 'x')), WsClose::too_big},
      {frame(WsOpcode::binary, std::string(600, 'x'), false) +
           frame(WsOpcode::continuation, std::string(401, 'x')),
       WsClose::too_big},
  };
  for (const auto& [bytes, code] : cases)
    for (const std::size_t piece : {1U, 1000U})
      EXPECT_EQ(decode(From::client, bytes, piece, 1000).error, code)
          << testing::PrintToString(bytes);
  EXPECT_EQ(decode(From::server, frame(WsOpcode::text, "x")).error, WsClose::protocol);
  // A character may be split between two fragments.
  const std::string split =
      frame(WsOpcode::text, "\xC3", false) + frame(WsOpcode::continuation, "\xA4");
  EXPECT_EQ(decode(From::client, split).events.at(0).data, "\xC3\xA4");
}

TEST(WebSocketFrames, CloseReasonsAreCutToFit) {
  std::string reason;
  while (reason.size() < 200) reason += "\xE2\x82\xAC";
  const std::string payload = ws_close_payload(1000, reason);
  EXPECT_EQ(payload.size(), 2U + 123U);
  EXPECT_TRUE(is_utf8(std::string_view(payload).substr(2)));
  EXPECT_EQ(decode(From::client, frame(WsOpcode::close, "")).events.at(0).close_code, 1005);
}

TEST(WebSocketFrames, Utf8) {
  for (const char* good : {"", "a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF",
                           "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xFF"})
    EXPECT_FALSE(is_utf8(bad)) << testing::PrintToString(bad);
}

}  // namespace
}  // namespace firebreak::wire
