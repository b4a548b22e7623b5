#include "ingress/shell.h"

#include "base/json.h"
#include "ingress/passage.h"
#include "net/websocket.h"
#include "session/terminal.h"

namespace firebreak::ingress {
namespace {

constexpr std::chrono::seconds kCallTime{10};
constexpr std::chrono::seconds kStartTime{30};

std::optional<session::TerminalSize> as_resize(const net::WebSocketMessage& message) {
  if (!message.text || message.data.size() > 256) return std::nullopt;
  const auto object = parse_json_object(message.data);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  const bool resize = reader.string("type") == "resize";
  const std::uint64_t cols = reader.u64("cols");
  const std::uint64_t rows = reader.u64("rows");
  if (!resize || !reader.result() || cols == 0 || rows == 0 || cols > 10000 || rows > 10000)
    return std::nullopt;
  return session::TerminalSize{static_cast<std::uint32_t>(cols), static_cast<std::uint32_t>(rows)};
}

// Keys and screen as messages of a WebSocket.
class SocketPeer final : public session::TerminalPeer {
 public:
  SocketPeer(net::WebSocket& socket, const session::Guest& guest)
      : socket_(socket), guest_(guest), deadline_(Deadline::in(kStreamTime)) {}

  net::Task<std::optional<session::TerminalInput>> input() override {
    auto message = co_await socket_.read(deadline_);
    if (!message || !*message) co_return std::nullopt;
    if (const auto size = as_resize(**message)) {
      guest_.took((*message)->data.size());
      co_return *size;
    }
    co_return session::Keys{std::move((*message)->data)};
  }
  net::Task<bool> show(std::string bytes) override {
    co_return (co_await socket_.write(false, bytes, deadline_)).has_value();
  }
  net::Task<void> ended(std::optional<session::Ending> ending) override {
    const Deadline deadline = Deadline::in(kCallTime);
    if (ending)
      (void)co_await socket_.close(1000, "shell exited", deadline);
    else
      (void)co_await socket_.close(1011, "the microVM went away", deadline);
  }

 private:
  net::WebSocket& socket_;
  const session::Guest& guest_;
  Deadline deadline_;
};

net::Task<Result<>> converse(net::HttpExchange& exchange, const Route& route,
                             const session::Guest& guest, session::Terminal& terminal,
                             Deadline deadline) {
  const std::string protocol = route.platform_protocols ? std::string(kMarkerProtocol) : "";
  FB_CO_TRY_ASSIGN(auto socket, co_await net::accept_websocket(exchange, protocol, deadline));
  const json::object hello{{"type", "session_init"}, {"session_id", core::new_uuid()}};
  FB_CO_TRY(co_await socket->write(true, json::serialize(hello), deadline));
  SocketPeer peer(*socket, guest);
  co_await terminal.serve(peer);
  co_return Result<>();
}

}  // namespace

net::Task<Result<>> serve_shell(net::HttpExchange& exchange, const Route& route,
                                const session::Guest& guest) {
  session::Command command;
  command.shell = session::kLoginShell;
  command.user = "root";
  command.env["TERM"] = "xterm";
  const Deadline deadline = Deadline::in(kStartTime);
  FB_CO_TRY_ASSIGN(session::Terminal terminal,
                   co_await session::Terminal::open(guest, std::move(command), deadline));
  auto done = co_await converse(exchange, route, guest, terminal, deadline);
  if (!done) co_await terminal.close();
  co_return done;
}

}  // namespace firebreak::ingress
