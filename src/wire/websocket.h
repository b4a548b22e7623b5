// WebSocket frames (RFC 6455) without I/O, both ends, no extensions. The peer is untrusted: what
// breaks the rules (masking, control frames, lengths, UTF-8) ends the connection; messages are
// bounded. Owned by its connection; single thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

enum class WsOpcode : std::uint8_t {
  continuation = 0,
  text = 1,
  binary = 2,
  close = 8,
  ping = 9,
  pong = 10
};

// Close codes we use (RFC 6455 section 7.4.1).
enum class WsClose : std::uint16_t {
  normal = 1000,
  going_away = 1001,
  protocol = 1002,
  no_code = 1005,   // never sent: the peer's close had none
  abnormal = 1006,  // never sent: the connection ended without a close
  bad_data = 1007,
  too_big = 1009,
  internal = 1011
};

// A whole message, or a control frame.
struct WsEvent {
  WsOpcode opcode = WsOpcode::binary;
  std::string data;              // of a close: its reason
  std::uint16_t close_code = 0;  // of a close
  friend bool operator==(const WsEvent&, const WsEvent&) = default;
};

class WebSocketDecoder {
 public:
  enum class From { client, server };
  WebSocketDecoder(From from, std::size_t max_message) : from_(from), max_message_(max_message) {}

  // Takes bytes from the front of `input`; nullopt: it has taken all and needs more. After a close
  // the rest is ignored. After an error send error_code() and end the connection.
  Result<std::optional<WsEvent>> next(std::string_view& input);
  WsClose error_code() const { return error_code_; }

 private:
  Result<> refuse(WsClose code, std::string message);
  bool take_header(std::string_view& input);
  Result<> begin_frame();
  void take_payload(std::string_view& input);
  Result<std::optional<WsEvent>> end_frame();
  Result<std::optional<WsEvent>> close_event();
  bool is_control() const { return static_cast<std::uint8_t>(opcode_) >= 8; }

  From from_;
  std::size_t max_message_;
  std::string header_;  // of the frame that is being received
  bool in_payload_ = false;
  bool fin_ = false;
  WsOpcode opcode_ = WsOpcode::binary;
  std::uint64_t left_ = 0;
  std::array<char, 4> mask_{};
  std::size_t mask_at_ = 0;
  std::string control_;
  std::string message_;
  std::optional<WsOpcode> message_opcode_;  // a message has begun
  bool closed_ = false;
  WsClose error_code_ = WsClose::protocol;
};

// A client's frames have a mask, unpredictable to whoever chose the payload; a server's have none.
using WsMask = std::array<std::byte, 4>;
void put_ws_frame(WsOpcode opcode, std::string_view payload, const std::optional<WsMask>& mask,
                  std::string& out, bool fin = true);
// The payload of a close frame; the reason is cut to what fits.
std::string ws_close_payload(std::uint16_t code, std::string_view reason);

bool is_utf8(std::string_view text);

// Sec-WebSocket-Key is 16 bytes in base64; the accept key proves that the server understood it.
bool is_websocket_key(std::string_view key);
std::string make_websocket_key();
std::string websocket_accept_key(std::string_view key);

}  // namespace firebreak::wire
