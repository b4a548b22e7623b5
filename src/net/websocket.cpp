#include "net/websocket.h"

#include <algorithm>

#include "base/sys.h"
#include "net/http_client.h"
#include "net/semaphore.h"
#include "wire/http1.h"
#include "wire/websocket.h"

namespace firebreak::net {
namespace {

using wire::WsClose;
using wire::WsOpcode;

// For pongs and answers to a close: the reader's own deadline may be a short one, and a write that
// misses its deadline ends the connection.
constexpr std::chrono::seconds kControlTimeout{10};
constexpr std::size_t kMostOfRefusal = 64UL << 10;  // of the body of an answer that is no 101

class Socket : public WebSocket {
 public:
  Socket(const asio::any_io_executor& executor, std::unique_ptr<ByteStream> stream, bool client,
         std::size_t max_message)
      : stream_(std::move(stream)),
        client_(client),
        decoder_(
            client ? wire::WebSocketDecoder::From::server : wire::WebSocketDecoder::From::client,
            max_message),
        sending_(executor) {}

  Task<Result<std::optional<WebSocketMessage>>> read(Deadline deadline) override;
  Task<Result<>> write(bool text, std::string_view data, Deadline deadline) override {
    return send(text ? WsOpcode::text : WsOpcode::binary, data, deadline);
  }
  Task<Result<>> ping(Deadline deadline) override { return send(WsOpcode::ping, {}, deadline); }
  Task<Result<>> close(std::uint16_t code, std::string_view reason, Deadline deadline) override {
    co_return co_await send_close(wire::ws_close_payload(code, reason), deadline);
  }
  std::uint16_t close_code() const override { return close_code_; }
  std::string close_reason() const override { return close_reason_; }

 private:
  Task<Result<>> send(WsOpcode opcode, std::string_view payload, Deadline deadline);
  Task<Result<>> send_close(std::string payload, Deadline deadline);
  Task<void> closed_by_peer(wire::WsEvent event);

  std::unique_ptr<ByteStream> stream_;
  const bool client_;
  wire::WebSocketDecoder decoder_;
  Mutex sending_;  // messages of the writer, pongs of the reader
  std::string in_;
  std::size_t in_at_ = 0;
  bool close_sent_ = false;
  bool closed_ = false;  // by the peer
  std::uint16_t close_code_ = static_cast<std::uint16_t>(WsClose::abnormal);
  std::string close_reason_;
};

Task<Result<std::optional<WebSocketMessage>>> Socket::read(Deadline deadline) {
  while (!closed_) {
    std::string_view input = std::string_view(in_).substr(in_at_);
    auto event = decoder_.next(input);
    in_at_ = in_.size() - input.size();
    if (!event) {
      const auto code = static_cast<std::uint16_t>(decoder_.error_code());
      const std::string payload = wire::ws_close_payload(code, event.error().message);
      (void)co_await send_close(payload, Deadline::in(kControlTimeout));
      stream_->close();
      co_return std::unexpected(std::move(event).error());
    }
    if (!*event) {
      FB_CO_TRY_ASSIGN(in_, co_await stream_->read(deadline));
      in_at_ = 0;
      if (in_.empty()) closed_ = true;
      continue;
    }
    wire::WsEvent& got = **event;
    if (got.opcode == WsOpcode::text || got.opcode == WsOpcode::binary)
      co_return WebSocketMessage{.text = got.opcode == WsOpcode::text, .data = std::move(got.data)};
    if (got.opcode == WsOpcode::close) {
      co_await closed_by_peer(std::move(got));
    } else if (got.opcode == WsOpcode::ping && !close_sent_) {
      FB_CO_TRY(co_await send(WsOpcode::pong, got.data, Deadline::in(kControlTimeout)));
    }
  }
  co_return std::nullopt;
}

Task<void> Socket::closed_by_peer(wire::WsEvent event) {
  closed_ = true;
  close_code_ = event.close_code;
  close_reason_ = event.data;
  const Deadline deadline = Deadline::in(kControlTimeout);
  const bool has_code = event.close_code != static_cast<std::uint16_t>(WsClose::no_code);
  std::string payload = has_code ? wire::ws_close_payload(event.close_code, {}) : std::string();
  (void)co_await send_close(std::move(payload), deadline);
  (void)co_await stream_->finish(deadline);
}

Task<Result<>> Socket::send_close(std::string payload, Deadline deadline) {
  if (close_sent_) co_return Result<>();
  auto sent = co_await send(WsOpcode::close, payload, deadline);
  close_sent_ = true;
  co_return sent;
}

Task<Result<>> Socket::send(WsOpcode opcode, std::string_view payload, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const Mutex::Guard guard, co_await sending_.lock(deadline));
  if (close_sent_ || (closed_ && opcode != WsOpcode::close))
    co_return fail(Code::unavailable, "the WebSocket is closed");
  if (opcode == WsOpcode::close) close_sent_ = true;
  std::optional<wire::WsMask> mask;
  if (client_) {
    mask.emplace();
    sys::random_bytes(*mask);
  }
  std::string out;
  wire::put_ws_frame(opcode, payload, mask, out);
  co_return co_await stream_->write(out, deadline);
}

std::string_view header(const HttpRequest& request, std::string_view name) {
  return wire::find_header(request.headers, name);
}

Result<> check_handshake(const HttpReply& reply, const std::string& key,
                         const std::vector<std::string>& protocols) {
  if (reply.status != 101) {
    const Code code = reply.status == 401   ? Code::unauthenticated
                      : reply.status == 403 ? Code::denied
                      : reply.status == 404 ? Code::not_found
                                            : Code::unavailable;
    return fail(code,
                "the server refused the WebSocket with status " + std::to_string(reply.status),
                reply.body);
  }
  const std::string_view protocol = wire::find_header(reply.headers, "sec-websocket-protocol");
  if (!wire::has_token(wire::find_header(reply.headers, "upgrade"), "websocket") ||
      wire::find_header(reply.headers, "sec-websocket-accept") != wire::websocket_accept_key(key) ||
      !wire::find_header(reply.headers, "sec-websocket-extensions").empty() ||
      (!protocol.empty() && std::ranges::find(protocols, protocol) == protocols.end())) {
    return fail(Code::invalid, "the server answered the WebSocket handshake wrongly");
  }
  return {};
}

}  // namespace

bool is_websocket_request(const HttpRequest& request) {
  return request.version == 1 && request.method == "GET" &&
         wire::has_token(header(request, "connection"), "upgrade") &&
         wire::has_token(header(request, "upgrade"), "websocket") &&
         header(request, "sec-websocket-version") == "13" &&
         wire::is_websocket_key(header(request, "sec-websocket-key"));
}

std::vector<std::string> websocket_protocols(const HttpRequest& request) {
  std::vector<std::string> all;
  for (const auto& [name, value] : request.headers) {
    if (name != "sec-websocket-protocol") continue;
    std::ranges::move(wire::split_list(value), std::back_inserter(all));
  }
  return all;
}

Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(HttpExchange& exchange,
                                                          const std::string& protocol,
                                                          Deadline deadline,
                                                          std::size_t max_message) {
  if (!is_websocket_request(exchange.request()))
    co_return fail(Code::invalid, "not a WebSocket handshake of version 13");
  const std::string_view key = header(exchange.request(), "sec-websocket-key");
  wire::Headers headers{{"upgrade", "websocket"},
                        {"sec-websocket-accept", wire::websocket_accept_key(key)}};
  if (!protocol.empty()) headers.push_back({"sec-websocket-protocol", protocol});
  FB_CO_TRY_ASSIGN(auto stream, co_await exchange.upgrade(std::move(headers), deadline));
  co_return std::make_unique<Socket>(co_await asio::this_coro::executor, std::move(stream), false,
                                     max_message);
}

Task<Result<std::unique_ptr<WebSocket>>> open_websocket(
    std::unique_ptr<ByteStream> stream, std::string host, std::string target, wire::Headers headers,
    std::vector<std::string> protocols, Deadline deadline, std::size_t max_message) {
  const std::string key = wire::make_websocket_key();
  HttpCall call{.method = "GET",
                .target = std::move(target),
                .host = std::move(host),
                .headers = std::move(headers),
                .body = {}};
  const wire::Headers own{{"connection", "upgrade"},
                          {"upgrade", "websocket"},
                          {"sec-websocket-version", "13"},
                          {"sec-websocket-key", key}};
  call.headers.insert(call.headers.end(), own.begin(), own.end());
  for (const std::string& name : protocols)
    call.headers.push_back({"sec-websocket-protocol", name});
  FB_CO_TRY_ASSIGN(auto client, co_await HttpClientStream::start(std::move(stream), std::move(call),
                                                                 false, deadline));
  FB_CO_TRY_ASSIGN(HttpReply reply, co_await client->head(deadline));
  while (reply.status != 101 && reply.body.size() < kMostOfRefusal) {
    auto more = co_await client->read(Deadline::in(kControlTimeout));
    if (!more || more->empty()) break;
    reply.body += *more;
  }
  FB_CO_TRY(check_handshake(reply, key, protocols));
  co_return std::make_unique<Socket>(co_await asio::this_coro::executor, client->take_stream(),
                                     true, max_message);
}

}  // namespace firebreak::net
