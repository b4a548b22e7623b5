// Routes of execs: run a command to its end (one answer, or lines as it goes), and execs as objects
// that outlive the connection.
#include "api/native/guest_call.h"
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "session/exec.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(24);
constexpr std::size_t kPipe = 64UL << 10;

struct ExecRequest {
  session::Command command;
  std::string input;
  bool stream = false;
};

Result<ExecRequest> parse_exec(const json::object& body) {
  JsonReader reader(body);
  ExecRequest request;
  session::Command& command = request.command;
  command.argv = reader.strings_or_empty("argv");
  command.shell = reader.string_or("shell", "");
  command.env = reader.string_map_or_empty("env");
  command.cwd = reader.string_or("cwd", "");
  command.user = reader.string_or("user", "");
  command.timeout = std::chrono::milliseconds(reader.u64_or("timeoutMs", 0));
  command.open_stdin = reader.boolean_or("openStdin", false);
  request.stream = reader.boolean_or("stream", false);
  request.input = reader.string_or("stdin", "");
  if (reader.has("stdinBase64")) {
    auto decoded = wire::from_base64(reader.string("stdinBase64"));
    if (!decoded)
      reader.reject("stdinBase64", "is not base64");
    else
      request.input = *std::move(decoded);
  }
  if (const json::object* pty = reader.object("pty", false)) {
    JsonReader size(*pty, "pty.");
    constexpr std::uint64_t kMostCells = 10000;
    command.terminal = session::TerminalSize{
        static_cast<std::uint32_t>(std::min(size.u64_or("cols", 80), kMostCells)),
        static_cast<std::uint32_t>(std::min(size.u64_or("rows", 24), kMostCells))};
    FB_TRY(size.result());
  }
  if (command.argv.empty() == command.shell.empty())
    reader.reject("argv", "or shell must be given, and not both");
  FB_TRY(reader.result());
  return request;
}

json::object status_json(const session::CommandStatus& status) {
  json::object object{{"id", status.id},
                      {"pid", status.pid},
                      {"running", status.running},
                      {"startedAt", status.started_ms},
                      {"outputBytes", status.output_bytes},
                      {"stdinBytes", status.input_bytes}};
  if (status.ending) object["exit"] = ending_json(*status.ending);
  return object;
}

// One event as lines of JSON.
class EventLines {
 public:
  std::string of(const session::ExecEvent& event) {
    std::string text;
    if (const auto* started = std::get_if<session::Started>(&event))
      text = json::serialize(json::object{{"type", "started"}, {"exec", started->id}}) + "\n";
    if (const auto* chunk = std::get_if<session::Chunk>(&event)) lines_.add(*chunk, text);
    if (const auto* gap = std::get_if<session::Gap>(&event)) OutputLines::add(*gap, text);
    if (const auto* ending = std::get_if<session::Ending>(&event)) {
      lines_.flush(text);
      json::object line = ending_json(*ending);
      line["type"] = "exit";
      text += json::serialize(line) + "\n";
    }
    return text;
  }

 private:
  OutputLines lines_;
};

net::Task<Result<>> stream_exec(Call& call, const session::Guest& guest, ExecRequest request) {
  EventLines lines;
  auto sink = [&](session::ExecEvent event) -> net::Task<Result<>> {
    FB_CO_TRY(co_await start_lines(call));
    const std::string text = lines.of(event);
    if (text.empty()) co_return Result<>();
    co_return co_await call.exchange.write(text, Deadline::in(kStreamDeadline));
  };
  ExchangePresence caller(call.exchange);
  auto result = co_await session::stream(guest, std::move(request.command),
                                         std::move(request.input), caller, sink);
  co_return co_await finish_lines(call, std::move(result), "error");
}

net::Task<Result<>> run_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(ExecRequest request, parse_exec(body));
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  if (request.stream) co_return co_await stream_exec(call, guest, std::move(request));

  ExchangePresence caller(call.exchange);
  FB_CO_TRY_ASSIGN(
      const session::RunResult result,
      co_await session::run(guest, std::move(request.command), std::move(request.input), caller));
  json::object answer = ending_json(result.ending);
  put_bytes(answer, "stdout", result.out.bytes);
  put_bytes(answer, "stderr", result.err.bytes);
  answer["durationMs"] = result.duration.count();
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> start_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(ExecRequest request, parse_exec(body));
  // Nobody reads the output yet: only what the pipe holds is sure to be taken.
  if (request.input.size() > kPipe)
    co_return fail(Code::invalid, "stdin is longer than 64 KiB",
                   Repair{"use \"openStdin\": true and .../stdin"});
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const std::string id,
                   co_await session::start(guest, std::move(request.command),
                                           std::move(request.input), call.deadline));
  co_return co_await call.reply_json(201, json::object{{"exec", id}});
}

net::Task<Result<>> list_execs(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto all, co_await session::list_commands(guest, call.deadline));
  json::array list;
  for (const session::CommandStatus& status : all) list.push_back(status_json(status));
  co_return co_await call.reply_json(200, json::object{{"execs", std::move(list)}});
}

net::Task<Result<>> show_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto status,
                   co_await session::command_status(guest, call.param("exec"), call.deadline));
  co_return co_await call.reply_json(200, status_json(status));
}

net::Task<Result<>> remove_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::remove(guest, call.param("exec"), call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

// Follows an exec's output to its end, or to what there is now.
net::Task<Result<>> send_output(Call& call, session::ExecEvents& events,
                                std::optional<std::uint64_t> until) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  EventLines lines;
  while (!until || events.offset() < *until) {
    FB_CO_TRY_ASSIGN(const auto event, co_await events.next(deadline));
    if (!event) break;
    const std::string text = lines.of(*event);
    if (!text.empty()) FB_CO_TRY(co_await call.exchange.write(text, deadline));
  }
  co_return Result<>();
}

net::Task<Result<>> follow_exec(session::Guests& guests, Call& call) {
  const std::uint64_t offset = call.number("offset").value_or(0);
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(auto events,
                   co_await session::follow(guest, call.param("exec"), offset, call.deadline));
  std::optional<std::uint64_t> until;
  if (call.query("follow") == "0") {
    FB_CO_TRY_ASSIGN(const auto status,
                     co_await session::command_status(guest, call.param("exec"), call.deadline));
    until = status.output_bytes;
  }
  FB_CO_TRY(co_await start_lines(call));
  ExchangePresence caller(call.exchange);
  auto result = co_await session::while_present(caller, send_output(call, events, until));
  co_return co_await finish_lines(call, std::move(result), "error");
}

net::Task<Result<>> write_stdin(session::Guests& guests, Call& call) {
  std::uint64_t at = call.number("offset").value_or(0);
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  const Deadline deadline = Deadline::in(kStreamDeadline);
  const std::string& exec = call.param("exec");
  for (;;) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await call.exchange.read(deadline));
    if (bytes.empty()) break;
    const std::uint64_t size = bytes.size();
    FB_CO_TRY(co_await session::send_input(guest, exec, at, std::move(bytes), false, deadline));
    at += size;
  }
  if (call.flag("eof"))
    FB_CO_TRY(co_await session::send_input(guest, exec, at, "", true, deadline));
  co_return co_await call.reply_json(200, json::object{{"offset", at}});
}

net::Task<Result<>> signal_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::uint64_t signal = reader.u64_or("signal", 15);
  const bool group = reader.boolean_or("group", true);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::send_signal(guest, call.param("exec"), static_cast<int>(signal),
                                          group, call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> resize_exec(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::uint64_t cols = reader.u64("cols");
  const std::uint64_t rows = reader.u64("rows");
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  const session::TerminalSize size{static_cast<std::uint32_t>(cols),
                                   static_cast<std::uint32_t>(rows)};
  FB_CO_TRY(co_await session::resize(guest, call.param("exec"), size, call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

}  // namespace

void NativeApi::add_exec_routes() {
  session::Guests& g = guests_;
  router_.add({"POST", "/v1/microvms/{id}/exec",
               "Run a command to its end; with \"stream\": true, output lines (NDJSON) as it goes",
               false, Carries::guest_bytes, [&g](Call& call) { return run_exec(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs", "Start a command that outlives the connection",
               false, Carries::guest_bytes, [&g](Call& call) { return start_exec(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/execs", "List execs", false, Carries::guest_bytes,
               [&g](Call& call) { return list_execs(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/execs/{exec}", "One exec", false, Carries::guest_bytes,
               [&g](Call& call) { return show_exec(g, call); }});
  router_.add({"DELETE", "/v1/microvms/{id}/execs/{exec}", "Kill all it started and forget it",
               false, Carries::guest_bytes, [&g](Call& call) { return remove_exec(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/execs/{exec}/output", "Follow its output (NDJSON)", false,
               Carries::guest_bytes, [&g](Call& call) { return follow_exec(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/stdin", "Body bytes to its stdin", false,
               Carries::guest_bytes, [&g](Call& call) { return write_stdin(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/signal", "Send a signal", false,
               Carries::guest_bytes, [&g](Call& call) { return signal_exec(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/resize", "Resize its terminal", false,
               Carries::guest_bytes, [&g](Call& call) { return resize_exec(g, call); }});
}

}  // namespace firebreak::api
