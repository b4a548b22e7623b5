// Routes of execs: run a command to its end (one answer, or lines as it goes), and execs as objects
// that outlive the connection.
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/native/guest_call.h"
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

constexpr std::size_t kMaxOutput = 16UL << 20;  // of each stream in one JSON answer
constexpr auto kStreamDeadline = std::chrono::hours(24);
constexpr std::size_t kPipe = 64UL << 10;
constexpr std::string_view kNdjson = "application/x-ndjson";

std::string exec_path(const Call& call) {
  return "/execs/" + percent_encode(call.param("exec"), "");
}

struct ExecRequest {
  machine::ExecSpec spec;
  std::string input;
  bool stream = false;
};

Result<ExecRequest> parse_exec(const json::object& body) {
  FB_TRY(check_known(body, {"argv", "shell", "env", "cwd", "user", "stdin", "stdinBase64",
                            "timeoutMs", "stream", "pty", "openStdin"}));
  JsonReader reader(body);
  ExecRequest request;
  machine::ExecSpec& spec = request.spec;
  spec.argv = reader.strings_or_empty("argv");
  spec.shell = reader.string_or("shell", "");
  spec.env = reader.string_map_or_empty("env");
  spec.cwd = reader.string_or("cwd", "");
  spec.user = reader.string_or("user", "");
  spec.timeout_ms = reader.u64_or("timeoutMs", 0);
  spec.with_stdin = reader.boolean_or("openStdin", false);
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
    FB_TRY(check_known(*pty, {"cols", "rows"}));
    JsonReader size(*pty, "pty.");
    constexpr std::uint64_t kMostCells = 10000;
    spec.pty = {static_cast<std::uint32_t>(std::min(size.u64_or("cols", 80), kMostCells)),
                static_cast<std::uint32_t>(std::min(size.u64_or("rows", 24), kMostCells))};
    FB_TRY(size.result());
  }
  if (spec.argv.empty() == spec.shell.empty())
    reader.reject("argv", "or shell must be given, and not both");
  FB_TRY(reader.result());
  if (!request.input.empty()) spec.with_stdin = true;
  return request;
}

json::object exit_json(const machine::ExecExit& exit) {
  json::object object{{"timedOut", exit.timed_out}, {"outOfMemory", exit.oom}};
  if (exit.exit_code) object["exitCode"] = *exit.exit_code;
  if (exit.signal) object["signal"] = *exit.signal;
  return object;
}

// Follows an exec's output to its end. Ends early when the client has gone.
net::Task<Result<>> send_output(Call& call, control::Lease& lease, machine::ExecStream& output,
                                std::optional<std::uint64_t> until = std::nullopt) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  OutputLines lines;
  while (!until || output.offset() < *until) {
    FB_CO_TRY_ASSIGN(auto frame, co_await output.next(deadline));
    if (!frame) co_return Result<>();
    std::string text;
    if (frame->type == wire::FrameType::exit) {
      lines.flush(text);
      FB_CO_TRY_ASSIGN(const machine::ExecExit exit, machine::parse_exit(frame->payload));
      json::object line = exit_json(exit);
      line["type"] = "exit";
      text += json::serialize(line) + "\n";
    } else {
      lines.add(*frame, text);
    }
    lease.count(0, frame->payload.size());
    if (!text.empty()) FB_CO_TRY(co_await call.exchange.write(text, deadline));
  }
  co_return Result<>();
}

// An error after the first line can only be told as a line.
net::Task<Result<>> finish_lines(Call& call, Result<> result) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  if (!result) {
    json::object line = error_json(result.error());
    line["type"] = "error";
    FB_CO_TRY(co_await call.exchange.write(json::serialize(line) + "\n", deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

net::Task<Result<>> start_lines(Call& call) {
  co_return co_await call.exchange.start(
      200, {{"content-type", std::string(kNdjson)}, {"cache-control", "no-store"}}, call.deadline);
}

net::Task<Result<>> feed(const control::Lease& lease, const std::string& id, std::string input,
                         Deadline deadline) {
  lease.count(input.size(), 0);
  auto fed = co_await lease.agent().exec_stdin(id, 0, input, true, deadline);
  // A command may end, or close its input, before it has read everything.
  if (!fed && fed.error().code != Code::conflict && fed.error().code != Code::not_found)
    co_return fed;
  co_return Result<>();
}

// Input is fed while output is read: a command that answers as it reads would stop otherwise, once
// nobody takes its output.
net::Task<Result<>> feed_beside(const control::Lease& lease, std::string id, std::string input,
                                net::Task<Result<>> reading) {
  if (input.empty()) co_return co_await std::move(reading);
  const Deadline deadline = Deadline::in(kStreamDeadline);
  auto feeding = [&]() -> net::Task<Result<>> {
    FB_CO_TRY(co_await feed(lease, id, std::move(input), deadline));
    net::Event never(co_await net::asio::this_coro::executor);
    (void)co_await never.wait(deadline);
    co_return fail(Code::timeout, "the command took longer than a day");
  };
  auto either = co_await (std::move(reading) || feeding());
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

// Ends what nobody waits for any more. What a command that came to its end has left in the
// background goes on.
net::Task<void> end_exec(const control::Lease& lease, const std::string& id) {
  (void)co_await lease.agent().data_call("DELETE", "/execs/" + id, {},
                                         Deadline::in(std::chrono::seconds(10)));
}

net::Task<Result<>> stream_exec(Call& call, control::Lease& lease, ExecRequest request) {
  FB_CO_TRY_ASSIGN(const std::string id,
                   co_await lease.agent().start_exec(request.spec, call.deadline));
  auto body = [&]() -> net::Task<Result<>> {
    FB_CO_TRY(co_await start_lines(call));
    FB_CO_TRY(co_await call.exchange.write(
        json::serialize(json::object{{"type", "started"}, {"exec", id}}) + "\n", call.deadline));
    FB_CO_TRY_ASSIGN(auto output, co_await lease.agent().exec_output(id, 0, call.deadline));
    auto reading = send_output(call, lease, *output);
    co_return co_await feed_beside(lease, id, std::move(request.input), std::move(reading));
  };
  auto result = co_await unless_gone(call.exchange, body());
  if (!result) co_await end_exec(lease, id);
  co_return co_await finish_lines(call, std::move(result));
}

net::Task<Result<>> collect(machine::ExecStream& output, machine::ExecResult& result) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  bool exited = false;
  for (;;) {
    FB_CO_TRY_ASSIGN(const auto frame, co_await output.next(deadline));
    if (!frame) break;
    if (frame->type == wire::FrameType::out) result.out += frame->payload;
    if (frame->type == wire::FrameType::err) result.err += frame->payload;
    if (frame->type == wire::FrameType::exit) {
      FB_CO_TRY_ASSIGN(result.exit, machine::parse_exit(frame->payload));
      exited = true;
    }
    if (result.out.size() > kMaxOutput || result.err.size() > kMaxOutput)
      co_return fail(Code::exhausted, "the output is larger than 16 MiB; use \"stream\": true");
  }
  if (!exited) co_return fail(Code::guest, "the command's output ended without an exit status");
  co_return Result<>();
}

// To its end, all output in memory.
net::Task<Result<>> run_to_end(const control::Lease& held, ExecRequest& request,
                               machine::ExecResult& result) {
  if (request.input.empty()) {
    FB_CO_TRY_ASSIGN(
        result, co_await held.agent().run(request.spec, Deadline::in(kStreamDeadline), kMaxOutput));
    co_return Result<>();
  }
  const Deadline soon = Deadline::in(std::chrono::minutes(5));
  FB_CO_TRY_ASSIGN(const std::string id, co_await held.agent().start_exec(request.spec, soon));
  FB_CO_TRY_ASSIGN(const auto output, co_await held.agent().exec_output(id, 0, soon));
  auto reading = collect(*output, result);
  co_return co_await feed_beside(held, id, std::move(request.input), std::move(reading));
}

net::Task<Result<>> run_exec(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(ExecRequest request, parse_exec(body));
  if (body.contains("openStdin"))
    co_return fail(Code::invalid, "openStdin is of /execs; use stdin here");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  add_environment(request.spec, held);
  if (request.stream) co_return co_await stream_exec(call, held, std::move(request));

  machine::ExecResult result;
  // Named by us, so that it can be ended when whoever asked goes away.
  request.spec.id = "api-" + core::new_uuid();
  auto ran = co_await unless_gone(call.exchange, run_to_end(held, request, result));
  if (!ran) {
    co_await end_exec(held, request.spec.id);
    co_return ran;
  }
  held.count(0, result.out.size() + result.err.size());
  json::object answer = exit_json(result.exit);
  put_bytes(answer, "stdout", result.out);
  put_bytes(answer, "stderr", result.err);
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> start_exec(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(ExecRequest request, parse_exec(body));
  if (body.contains("stream"))
    co_return fail(Code::invalid, "stream is of /exec; follow .../output here");
  // Nobody reads the output yet: only what the pipe holds is sure to be taken.
  if (request.input.size() > kPipe)
    co_return fail(Code::invalid,
                   "stdin is longer than 64 KiB; use \"openStdin\": true and .../stdin");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  add_environment(request.spec, held);
  FB_CO_TRY_ASSIGN(const std::string id,
                   co_await held.agent().start_exec(request.spec, call.deadline));
  if (!request.input.empty()) {
    auto fed = co_await feed(held, id, std::move(request.input), call.deadline);
    if (!fed) {
      co_await end_exec(held, id);
      co_return fed;
    }
  }
  co_return co_await call.reply_json(201, json::object{{"exec", id}});
}

net::Task<Result<>> follow_exec(control::Supervisor& supervisor, Call& call) {
  const auto offset = parse_u64(call.target.has_query("offset") ? call.query("offset") : "0");
  if (!offset) co_return fail(Code::invalid, "offset must be a number");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  FB_CO_TRY_ASSIGN(auto output,
                   co_await held.agent().exec_output(call.param("exec"), *offset, call.deadline));
  std::optional<std::uint64_t> until;
  if (call.query("follow") == "0") {
    FB_CO_TRY_ASSIGN(const json::object status,
                     co_await held.agent().data_call("GET", exec_path(call), {}, call.deadline));
    JsonReader reader(status);
    until = reader.u64("offset");
    FB_CO_TRY(reader.result());
  }
  FB_CO_TRY(co_await start_lines(call));
  co_return co_await finish_lines(
      call, co_await unless_gone(call.exchange, send_output(call, held, *output, until)));
}

net::Task<Result<>> write_stdin(control::Supervisor& supervisor, Call& call) {
  const auto offset = parse_u64(call.target.has_query("offset") ? call.query("offset") : "0");
  if (!offset) co_return fail(Code::invalid, "offset must be a number");
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  std::uint64_t at = *offset;
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await call.exchange.read(deadline));
    if (bytes.empty()) break;
    FB_CO_TRY(co_await held.agent().exec_stdin(call.param("exec"), at, bytes, false, deadline));
    at += bytes.size();
    held.count(bytes.size(), 0);
  }
  if (call.flag("eof"))
    FB_CO_TRY(co_await held.agent().exec_stdin(call.param("exec"), at, "", true, deadline));
  co_return co_await call.reply_json(200, json::object{{"offset", at}});
}

// The application's log is on the host: it can also be read when the microVM sleeps or has ended.
net::Task<Result<>> send_log(control::Supervisor& supervisor, Call& call) {
  const core::MicrovmId id(call.param("id"));
  FB_CO_TRY(co_await supervisor.get(call.tenant(), id));
  control::AppLog& log = supervisor.services().app_log;
  const Deadline deadline = Deadline::in(kStreamDeadline);
  FB_CO_TRY(co_await start_lines(call));
  auto body = [&]() -> net::Task<Result<>> {
    std::uint64_t position = 0;
    wire::FrameDecoder decoder;
    OutputLines lines;
    for (;;) {
      const bool over = supervisor.registry().find(id) == nullptr;
      FB_CO_TRY_ASSIGN(const std::string bytes, log.read(id, position));
      position += bytes.size();
      decoder.feed(bytes);
      std::string text;
      for (;;) {
        FB_CO_TRY_ASSIGN(auto frame, decoder.next());
        if (!frame) break;
        lines.add(*frame, text);
      }
      if (!text.empty()) FB_CO_TRY(co_await call.exchange.write(text, deadline));
      if (!bytes.empty()) continue;
      if (over || !call.flag("follow")) co_return Result<>();
      (void)co_await log.changed().wait(Deadline::in(std::chrono::seconds(1)));
    }
  };
  co_return co_await finish_lines(call, co_await unless_gone(call.exchange, body()));
}

}  // namespace

void NativeApi::add_exec_routes() {
  control::Supervisor& s = supervisor_;
  router_.add({"POST", "/v1/microvms/{id}/exec",
               "Run a command to its end; with \"stream\": true, output lines (NDJSON) as it goes",
               false, [&s](Call& call) { return run_exec(s, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs", "Start a command that outlives the connection",
               false, [&s](Call& call) { return start_exec(s, call); }});
  router_.add({"GET", "/v1/microvms/{id}/execs", "List execs", false,
               [&s](Call& call) { return pass_on(s, call, "GET", "/execs"); }});
  router_.add({"GET", "/v1/microvms/{id}/execs/{exec}", "One exec", false,
               [&s](Call& call) { return pass_on(s, call, "GET", exec_path(call)); }});
  router_.add({"DELETE", "/v1/microvms/{id}/execs/{exec}", "Kill all it started and forget it",
               false, [&s](Call& call) { return pass_on(s, call, "DELETE", exec_path(call)); }});
  router_.add({"GET", "/v1/microvms/{id}/execs/{exec}/output",
               "Follow its output (NDJSON) from ?offset; ?follow=0 ends with what is there", false,
               [&s](Call& call) { return follow_exec(s, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/stdin",
               "Body bytes to its stdin at ?offset; ?eof=1 closes it", false,
               [&s](Call& call) { return write_stdin(s, call); }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/signal", "Send a signal: {signal}", false,
               [&s](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
                 FB_CO_TRY(check_known(body, {"signal", "group"}));
                 co_return co_await pass_on(s, call, "POST", exec_path(call) + "/signal", body);
               }});
  router_.add({"POST", "/v1/microvms/{id}/execs/{exec}/resize", "Resize its terminal: {cols, rows}",
               false, [&s](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
                 FB_CO_TRY(check_known(body, {"cols", "rows"}));
                 co_return co_await pass_on(s, call, "POST", exec_path(call) + "/resize", body);
               }});
  router_.add({"GET", "/v1/microvms/{id}/logs",
               "What the application printed (NDJSON); with ?follow=1 until the microVM ends",
               false, [&s](Call& call) { return send_log(s, call); }});
}

}  // namespace firebreak::api
