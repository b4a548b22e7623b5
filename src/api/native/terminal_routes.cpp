// Routes that are WebSockets: a terminal, and a TCP tunnel to a port of the guest.
#include <utility>

#include "api/native/guest_call.h"
#include "api/native/native_api.h"
#include "base/text.h"
#include "base/words.h"
#include "net/race.h"
#include "net/websocket.h"
#include "session/ports.h"
#include "session/terminal.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(24);
constexpr std::uint64_t kMostCells = 10000;

std::uint32_t number_or(const std::string& text, std::uint32_t fallback) {
  const auto value = parse_u64(text);
  return value && *value > 0 && *value <= kMostCells ? static_cast<std::uint32_t>(*value)
                                                     : fallback;
}

// Binary frames are keys; text frames are JSON: {"type":"resize","cols":C,"rows":R}.
class WebSocketPeer : public session::TerminalPeer {
 public:
  explicit WebSocketPeer(net::WebSocket& socket) : socket_(socket) {}

  net::Task<std::optional<session::TerminalInput>> input() override {
    for (;;) {
      auto message = co_await socket_.read(Deadline::in(kStreamDeadline));
      if (!message || !*message) co_return std::nullopt;
      if (!(*message)->text) co_return session::Keys{std::move((*message)->data)};
      if (const auto size = resize_of((*message)->data)) co_return *size;
    }
  }

  net::Task<bool> show(std::string bytes) override {
    const auto written = co_await socket_.write(false, bytes, Deadline::in(kStreamDeadline));
    co_return written.has_value();
  }

  net::Task<void> ended(std::optional<session::Ending> ending) override {
    const Deadline deadline = Deadline::in(std::chrono::seconds(5));
    if (!ending) {
      (void)co_await socket_.close(1011, "the microVM went away", deadline);
      co_return;
    }
    json::object line{{"type", "exit"}};
    if (ending->exit_code) line["exitCode"] = *ending->exit_code;
    if (ending->signal) line["signal"] = *ending->signal;
    (void)co_await socket_.write(true, json::serialize(line), deadline);
    (void)co_await socket_.close(1000, "exited", deadline);
  }

 private:
  static std::optional<session::TerminalSize> resize_of(std::string_view text) {
    const auto object = parse_json_object(text);
    if (!object) return std::nullopt;
    JsonReader reader(*object);
    if (reader.string_or("type", "") != "resize") return std::nullopt;
    const std::uint64_t cols = reader.u64_or("cols", 80);
    const std::uint64_t rows = reader.u64_or("rows", 24);
    if (!reader.result() || cols == 0 || rows == 0 || cols > kMostCells || rows > kMostCells)
      return std::nullopt;
    return session::TerminalSize{static_cast<std::uint32_t>(cols),
                                 static_cast<std::uint32_t>(rows)};
  }

  net::WebSocket& socket_;
};

// A program with arguments, a line for the shell, or a login shell; and its environment.
Result<session::Command> terminal_command(const Call& call) {
  session::Command command;
  command.shell = call.query("command");
  for (const auto& [name, value] : call.target.query) {
    if (name == "arg") command.argv.push_back(value);
    if (name != "env") continue;
    FB_TRY_ASSIGN(NameValue variable, parse_pair(value, "env"));
    command.env[variable.name] = std::move(variable.value);
  }
  if (!command.argv.empty() && !command.shell.empty())
    return fail(Code::invalid, "arg and command exclude each other", Repair{"give one of them"});
  if (command.argv.empty() && command.shell.empty()) command.shell = session::kLoginShell;
  command.user = call.query("user");
  command.cwd = call.query("cwd");
  command.env["TERM"] = call.target.has_query("term") ? call.query("term") : "xterm-256color";
  command.terminal =
      session::TerminalSize{number_or(call.query("cols"), 80), number_or(call.query("rows"), 24)};
  return command;
}

net::Task<Result<>> terminal(session::Guests& guests, Call& call) {
  if (!net::is_websocket_request(call.exchange.request()))
    co_return fail(Code::invalid, "this is a WebSocket endpoint");
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(session::Command command, terminal_command(call));
  FB_CO_TRY_ASSIGN(auto opened,
                   co_await session::Terminal::open(guest, std::move(command), call.deadline));
  auto socket = co_await net::accept_websocket(call.exchange, "", call.deadline);
  if (!socket) {
    co_await opened.close();
    co_return std::unexpected(socket.error());
  }
  WebSocketPeer peer(**socket);
  co_await opened.serve(peer);
  co_return Result<>();
}

// A client that asks for half-close says that it sends no more with this text, and is told so with
// it, too; without, the end of either side is the end of both.
constexpr std::string_view kEnd = R"({"type":"end"})";

struct Halves {
  bool apart = false;  // one may end before the other
  bool client_ended = false;
  bool port_ended = false;
};

net::Task<void> client_to_port(net::WebSocket& socket, session::PortConnection& port,
                               Halves& halves) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    auto message = co_await socket.read(deadline);
    if (!message || !*message) co_return;
    if (halves.apart && (*message)->text) {
      if ((*message)->data != kEnd || std::exchange(halves.client_ended, true)) continue;
      (void)co_await port.finish(deadline);
      if (!halves.port_ended) continue;
      (void)co_await socket.close(1000, "closed", Deadline::in(std::chrono::seconds(5)));
      co_return;
    }
    if (!co_await port.write(std::move((*message)->data), deadline)) co_return;
  }
}

net::Task<void> port_to_client(net::WebSocket& socket, session::PortConnection& port,
                               Halves& halves) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    auto bytes = co_await port.read(deadline);
    // A connection that broke is not one whose server has said all.
    if (!bytes) halves.apart = false;
    if (!bytes || bytes->empty()) break;
    if (!co_await socket.write(false, *bytes, deadline)) co_return;
  }
  halves.port_ended = true;
  if (halves.apart && !halves.client_ended) {
    if (!co_await socket.write(true, kEnd, deadline)) co_return;
    net::Event never(co_await net::asio::this_coro::executor);
    (void)co_await never.wait(deadline);
    co_return;
  }
  (void)co_await socket.close(1000, "closed", Deadline::in(std::chrono::seconds(5)));
}

net::Task<Result<>> tunnel(session::Guests& guests, Call& call) {
  if (!net::is_websocket_request(call.exchange.request()))
    co_return fail(Code::invalid, "this is a WebSocket endpoint");
  const auto number = parse_u64(call.query("port"));
  if (!number || *number == 0 || *number > 65535)
    co_return fail(Code::invalid, "port must be 1 to 65535");
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(auto port, co_await session::connect(guest, static_cast<std::uint16_t>(*number),
                                                        call.deadline));
  FB_CO_TRY_ASSIGN(auto socket, co_await net::accept_websocket(call.exchange, "", call.deadline));
  Halves halves{.apart = call.flag("halfClose")};
  (void)co_await net::race(client_to_port(*socket, port, halves),
                           port_to_client(*socket, port, halves));
  port.close();
  co_return Result<>();
}

}  // namespace

void NativeApi::add_terminal_routes() {
  session::Guests& g = guests_;
  router_.add({"GET", "/v1/microvms/{id}/pty", "Terminal over WebSocket", false,
               Carries::guest_bytes, [&g](Call& call) { return terminal(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/tunnel", "TCP to a port of the guest over WebSocket",
               false, Carries::traffic, [&g](Call& call) { return tunnel(g, call); }});
}

}  // namespace firebreak::api
