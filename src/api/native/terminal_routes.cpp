// Routes that are WebSockets: a terminal, and a TCP tunnel to a port of the guest.
#include <utility>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/native/guest_call.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "base/text.h"
#include "image/guest_stream.h"
#include "net/websocket.h"

namespace firebreak::api {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

constexpr auto kStreamDeadline = std::chrono::hours(24);

std::uint32_t number_or(const std::string& text, std::uint32_t fallback) {
  const auto value = parse_u64(text);
  return value && *value > 0 && *value <= 10000 ? static_cast<std::uint32_t>(*value) : fallback;
}

// Binary frames are keys; text frames are JSON: {"type":"resize","cols":C,"rows":R}.
net::Task<void> client_to_terminal(net::WebSocket& socket, const control::Lease& held,
                                   std::string exec) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  std::uint64_t offset = 0;
  for (;;) {
    auto message = co_await socket.read(deadline);
    if (!message || !*message) co_return;
    if ((*message)->text) {
      auto object = parse_json_object((*message)->data);
      if (!object) continue;
      JsonReader reader(*object);
      if (reader.string_or("type", "") != "resize") continue;
      const json::object size{{"cols", reader.u64_or("cols", 80)},
                              {"rows", reader.u64_or("rows", 24)}};
      (void)co_await held.agent().data_call("POST", "/execs/" + exec + "/resize", size,
                                            Deadline::in(std::chrono::seconds(10)));
      continue;
    }
    const std::string& keys = (*message)->data;
    if (!co_await held.agent().exec_stdin(exec, offset, keys, false, deadline)) co_return;
    offset += keys.size();
    held.count(keys.size(), 0);
  }
}

net::Task<void> terminal_to_client(net::WebSocket& socket, const control::Lease& held,
                                   machine::ExecStream& output) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    auto frame = co_await output.next(deadline);
    if (!frame || !*frame) break;
    if ((*frame)->type == wire::FrameType::exit) {
      auto exit = machine::parse_exit((*frame)->payload);
      json::object line{{"type", "exit"}};
      if (exit && exit->exit_code) line["exitCode"] = *exit->exit_code;
      if (exit && exit->signal) line["signal"] = *exit->signal;
      (void)co_await socket.write(true, json::serialize(line), deadline);
      (void)co_await socket.close(1000, "exited", Deadline::in(std::chrono::seconds(5)));
      co_return;
    }
    held.count(0, (*frame)->payload.size());
    if (!co_await socket.write(false, (*frame)->payload, deadline)) co_return;
  }
  (void)co_await socket.close(1011, "the microVM went away", Deadline::in(std::chrono::seconds(5)));
}

// A program with arguments, a line for the shell, or a login shell; and its environment.
Result<machine::ExecSpec> terminal_command(const Call& call) {
  machine::ExecSpec spec;
  spec.shell = call.query("command");
  for (const auto& [name, value] : call.target.query) {
    if (name == "arg") spec.argv.push_back(value);
    if (name != "env") continue;
    const auto at = value.find('=');
    if (at == std::string::npos || at == 0) return fail(Code::invalid, "env must be NAME=VALUE");
    spec.env[value.substr(0, at)] = value.substr(at + 1);
  }
  if (!spec.argv.empty() && !spec.shell.empty())
    return fail(Code::invalid, "arg and command exclude each other; give one of them");
  if (spec.argv.empty() && spec.shell.empty())
    spec.shell = "command -v bash >/dev/null && exec bash -l || exec sh -l";
  return spec;
}

net::Task<Result<>> terminal(control::Supervisor& supervisor, Call& call) {
  if (!net::is_websocket_request(call.exchange.request()))
    co_return fail(Code::invalid, "this is a WebSocket endpoint");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  FB_CO_TRY_ASSIGN(machine::ExecSpec spec, terminal_command(call));
  spec.user = call.query("user");
  spec.cwd = call.query("cwd");
  spec.env["TERM"] = call.target.has_query("term") ? call.query("term") : "xterm-256color";
  add_environment(spec, held);
  spec.with_stdin = true;
  spec.pty = {number_or(call.query("cols"), 80), number_or(call.query("rows"), 24)};
  FB_CO_TRY_ASSIGN(const std::string exec, co_await held.agent().start_exec(spec, call.deadline));
  FB_CO_TRY_ASSIGN(auto output, co_await held.agent().exec_output(exec, 0, call.deadline));
  FB_CO_TRY_ASSIGN(auto socket, co_await net::accept_websocket(call.exchange, "", call.deadline));
  co_await (client_to_terminal(*socket, held, exec) || terminal_to_client(*socket, held, *output));
  (void)co_await held.agent().data_call("DELETE", "/execs/" + exec, {},
                                        Deadline::in(std::chrono::seconds(10)));
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

net::Task<void> client_to_port(net::WebSocket& socket, const control::Lease& held,
                               net::ByteStream& port, Halves& halves) {
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
    held.count((*message)->data.size(), 0);
    if (!co_await port.write((*message)->data, deadline)) co_return;
  }
}

net::Task<void> port_to_client(net::WebSocket& socket, const control::Lease& held,
                               net::ByteStream& port, Halves& halves) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    auto bytes = co_await port.read(deadline);
    // A connection that broke is not one whose server has said all.
    if (!bytes) halves.apart = false;
    if (!bytes || bytes->empty()) break;
    held.count(0, bytes->size());
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

net::Task<Result<>> tunnel(control::Supervisor& supervisor, Call& call) {
  if (!net::is_websocket_request(call.exchange.request()))
    co_return fail(Code::invalid, "this is a WebSocket endpoint");
  const auto port = parse_u64(call.query("port"));
  if (!port || *port == 0 || *port > 65535)
    co_return fail(Code::invalid, "port must be 1 to 65535");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  FB_CO_TRY_ASSIGN(auto stream,
                   co_await image::connect_guest(held.agent(), static_cast<std::uint16_t>(*port),
                                                 call.deadline));
  FB_CO_TRY_ASSIGN(auto socket, co_await net::accept_websocket(call.exchange, "", call.deadline));
  Halves halves{.apart = call.flag("halfClose")};
  co_await (client_to_port(*socket, held, *stream, halves) ||
            port_to_client(*socket, held, *stream, halves));
  stream->close();
  co_return Result<>();
}

}  // namespace

void NativeApi::add_terminal_routes() {
  control::Supervisor& s = supervisor_;
  router_.add({"GET", "/v1/microvms/{id}/pty",
               "Terminal over WebSocket: ?cols, ?rows, ?command, ?arg, ?env, ?user, ?cwd, ?term",
               false, [&s](Call& call) { return terminal(s, call); }});
  router_.add({"GET", "/v1/microvms/{id}/tunnel",
               "TCP to ?port of the guest over WebSocket; ?halfClose=1", false,
               [&s](Call& call) { return tunnel(s, call); }});
}

}  // namespace firebreak::api
