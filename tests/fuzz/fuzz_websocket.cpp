// WebSocket decoder, both roles: any bytes, in any pieces, give the same events; what it accepted
// can be encoded and comes back unchanged.
#include <cstdlib>
#include <vector>

#include "wire/websocket.h"

namespace {

using namespace firebreak::wire;
using From = WebSocketDecoder::From;

constexpr std::size_t kLimit = 300;

struct Decoded {
  std::vector<WsEvent> events;
  bool failed = false;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

void check(bool holds) {
  if (!holds) std::abort();
}

Decoded decode(From from, std::string_view bytes, std::size_t piece) {
  Decoded out;
  WebSocketDecoder decoder(from, kLimit);
  while (!bytes.empty()) {
    std::string_view input = bytes.substr(0, piece);
    bytes.remove_prefix(input.size());
    for (;;) {
      auto event = decoder.next(input);
      if (!event) {
        out.failed = true;
        return out;
      }
      if (!*event) break;
      check((*event)->data.size() <= kLimit);
      check((*event)->opcode != WsOpcode::text || is_utf8((*event)->data));
      out.events.push_back(**event);
    }
    check(input.empty());
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 32;
  const bool client = data[0] >= 128;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const From from = client ? From::client : From::server;
  Decoded decoded = decode(from, input, piece);
  check(decoded == decode(from, input, input.size() + 1));

  std::optional<WsMask> mask;
  if (client) mask = WsMask{std::byte{1}, std::byte{0x82}, std::byte{3}, std::byte{0xff}};
  std::string wire;
  for (const WsEvent& event : decoded.events) {
    const bool coded = event.opcode == WsOpcode::close && event.close_code != 1005;
    const std::string payload = coded ? ws_close_payload(event.close_code, event.data) : event.data;
    put_ws_frame(event.opcode, payload, mask, wire);
  }
  decoded.failed = false;
  check(decode(from, wire, piece) == decoded);
  return 0;
}
