// WebSocket (RFC 6455) over a byte stream, both ends. Messages, not frames; pings are answered
// here. The peer is untrusted: message size is bounded. One reader and one writer task.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/http.h"

namespace firebreak::net {

struct WebSocketMessage {
  bool text = false;
  std::string data;
};

class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // nullopt: the peer closed (close_code, close_reason say how).
  virtual Task<Result<std::optional<WebSocketMessage>>> read(Deadline deadline) = 0;
  virtual Task<Result<>> write(bool text, std::string_view data, Deadline deadline) = 0;
  virtual Task<Result<>> ping(Deadline deadline) = 0;
  virtual Task<Result<>> close(std::uint16_t code, std::string_view reason, Deadline deadline) = 0;
  virtual std::uint16_t close_code() const = 0;
  virtual std::string close_reason() const = 0;
};

bool is_websocket_request(const HttpRequest& request);
// Offered subprotocols, in order.
std::vector<std::string> websocket_protocols(const HttpRequest& request);

inline constexpr std::size_t kMaxWebSocketMessage = 1UL << 20;

// Server: answers the handshake. `protocol` is the one chosen, empty for none.
Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(
    HttpExchange& exchange, const std::string& protocol, Deadline deadline,
    std::size_t max_message = kMaxWebSocketMessage);
// Client: sends the handshake over a connected stream and checks the answer. The detail of an error
// is the body with which the server refused.
Task<Result<std::unique_ptr<WebSocket>>> open_websocket(
    std::unique_ptr<ByteStream> stream, std::string host, std::string target, wire::Headers headers,
    std::vector<std::string> protocols, Deadline deadline,
    std::size_t max_message = kMaxWebSocketMessage);

}  // namespace firebreak::net
