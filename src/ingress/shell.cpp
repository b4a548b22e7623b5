#include "ingress/shell.h"

#include "base/json.h"
#include "ingress/passage.h"
#include "net/race.h"
#include "net/websocket.h"

namespace firebreak::ingress {
namespace {

constexpr std::chrono::seconds kCallTime{10};
constexpr std::chrono::seconds kStartTime{30};

std::optional<json::object> as_resize(const net::WebSocketMessage& message) {
  if (!message.text || message.data.size() > 256) return std::nullopt;
  const auto object = parse_json_object(message.data);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  const bool resize = reader.string("type") == "resize";
  const std::uint64_t cols = reader.u64("cols");
  const std::uint64_t rows = reader.u64("rows");
  if (!resize || !reader.result() || cols == 0 || rows == 0 || cols > 10000 || rows > 10000)
    return std::nullopt;
  return json::object{{"cols", cols}, {"rows", rows}};
}

net::Task<void> keys(net::WebSocket& socket, Visit& visit, std::string exec) {
  const Deadline deadline = Deadline::in(kStreamTime);
  std::uint64_t offset = 0;
  for (;;) {
    auto message = co_await socket.read(deadline);
    if (!message || !*message) co_return;
    visit.count((*message)->data.size(), 0);
    if (const auto size = as_resize(**message)) {
      (void)co_await visit.agent().data_call("POST", "/execs/" + exec + "/resize", *size,
                                             Deadline::in(kCallTime));
      continue;
    }
    const std::string& typed = (*message)->data;
    if (!co_await visit.agent().exec_stdin(exec, offset, typed, false, deadline)) co_return;
    offset += typed.size();
  }
}

net::Task<void> screen(net::WebSocket& socket, Visit& visit, machine::ExecStream& output) {
  const Deadline deadline = Deadline::in(kStreamTime);
  for (;;) {
    auto frame = co_await output.next(deadline);
    if (!frame || !*frame) break;
    if ((*frame)->type == wire::FrameType::exit) {
      (void)co_await socket.close(1000, "shell exited", Deadline::in(kCallTime));
      co_return;
    }
    if ((*frame)->type != wire::FrameType::out && (*frame)->type != wire::FrameType::err) continue;
    visit.count(0, (*frame)->payload.size());
    if (!co_await socket.write(false, (*frame)->payload, deadline)) co_return;
  }
  (void)co_await socket.close(1011, "the microVM went away", Deadline::in(kCallTime));
}

net::Task<Result<>> converse(net::HttpExchange& exchange, const Route& route, Visit& visit,
                             std::string exec, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto output, co_await visit.agent().exec_output(exec, 0, deadline));
  const std::string protocol = route.platform_protocols ? std::string(kMarkerProtocol) : "";
  FB_CO_TRY_ASSIGN(auto socket, co_await net::accept_websocket(exchange, protocol, deadline));
  const json::object hello{{"type", "session_init"}, {"session_id", core::new_uuid()}};
  FB_CO_TRY(co_await socket->write(true, json::serialize(hello), deadline));
  (void)co_await net::race(keys(*socket, visit, exec), screen(*socket, visit, *output));
  co_return Result<>();
}

}  // namespace

net::Task<Result<>> serve_shell(net::HttpExchange& exchange, const Route& route, Visit& visit) {
  machine::ExecSpec spec;
  // Named by us: it is ended also when nobody heard that it has begun.
  spec.id = "shell-" + core::new_uuid();
  spec.shell = "command -v bash >/dev/null && exec bash -l || exec sh -l";
  spec.user = "root";
  spec.env["TERM"] = "xterm";
  spec.with_stdin = true;
  spec.pty = {80, 24};
  const Deadline deadline = Deadline::in(kStartTime);
  Result<> done;
  if (auto exec = co_await visit.agent().start_exec(spec, deadline); exec)
    done = co_await converse(exchange, route, visit, spec.id, deadline);
  else
    done = std::unexpected(std::move(exec).error());
  (void)co_await visit.agent().data_call("DELETE", "/execs/" + spec.id, {},
                                         Deadline::in(kCallTime));
  co_return done;
}

}  // namespace firebreak::ingress
