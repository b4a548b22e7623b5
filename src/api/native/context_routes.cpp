// Routes of contexts: stateful interpreters in the guest.
#include "api/native/guest_call.h"
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(24);
constexpr std::size_t kMaxCollected = 16UL << 20;

std::string context_path(const Call& call) {
  return "/contexts/" + percent_encode(call.param("context"), "");
}

net::Task<Result<>> create(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY(check_known(body, {"language", "cwd", "env", "user", "id"}));
  co_return co_await pass_on(supervisor, call, "POST", "/contexts", body, 201);
}

struct CodeRequest {
  std::string code;
  std::uint64_t timeout_ms = 0;  // 0: none
};

std::string_view type_of(wire::FrameType type) {
  switch (type) {
    case wire::FrameType::item:
      return "result";
    case wire::FrameType::error:
      return "error";
    case wire::FrameType::done:
      return "done";
    default:
      return "";
  }
}

std::string started_line(const machine::RunStream& stream) {
  json::object line{{"type", "started"}, {"run", stream.position().run}};
  if (!stream.state().empty()) line["state"] = stream.state();
  return json::serialize(line) + "\n";
}

// One frame as lines of JSON. Objects come from a hostile guest: they are read and written again.
Result<> add_lines(OutputLines& lines, const wire::Frame& frame, std::string& text) {
  const std::string_view type = type_of(frame.type);
  if (type.empty()) {
    lines.add(frame, text);
    return {};
  }
  lines.flush(text);
  FB_TRY_ASSIGN(json::object object, parse_json_object(frame.payload));
  json::object line{{"type", type}};
  // The item's own type is its kind: "type" says what the line is.
  for (auto& member : object) {
    const std::string_view name = member.key();
    line[name == "type" ? std::string_view("kind") : name] = std::move(member.value());
  }
  text += json::serialize(line) + "\n";
  return {};
}

// Gives every line of a run to `sink`; returns after the "done" line.
template <class Sink>
net::Task<Result<>> read_run(const control::Lease& held, machine::RunStream& stream, Sink sink,
                             bool& done) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  OutputLines lines;
  while (!done) {
    FB_CO_TRY_ASSIGN(const auto frame, co_await stream.next(deadline));
    if (!frame) co_return fail(Code::guest, "the context's output ended too early");
    done = frame->type == wire::FrameType::done;
    held.count(0, frame->payload.size());
    std::string text;
    FB_CO_TRY(add_lines(lines, *frame, text));
    if (!text.empty()) FB_CO_TRY(co_await sink(text));
  }
  co_return Result<>();
}

// Runs code and gives every line to `sink`. When whoever asked goes away, or takes no more of the
// output, the code does not run on for nobody.
template <class Sink>
net::Task<Result<>> run_lines(Call& call, const control::Lease& held, const CodeRequest& request,
                              Sink sink) {
  const std::string& context = call.param("context");
  // Not given up half-way, and no error of it interrupts: what runs may be somebody else's.
  FB_CO_TRY_ASSIGN(
      const auto stream,
      co_await held.agent().run_context(context, request.code, request.timeout_ms, call.deadline));
  // The first frame comes with the answer and names the run.
  FB_CO_TRY(co_await stream->next(call.deadline));
  bool done = false;
  auto result = co_await sink(started_line(*stream));
  if (result) result = co_await unless_gone(call.exchange, read_run(held, *stream, sink, done));
  if (!result && !done) {
    (void)co_await held.agent().interrupt_run(context, stream->position().run,
                                              Deadline::in(std::chrono::seconds(10)));
  }
  co_return result;
}

net::Task<Result<>> stream_run(Call& call, const control::Lease& held, const CodeRequest& request) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  auto sink = [&](std::string text) -> net::Task<Result<>> {
    if (!call.exchange.started()) {
      FB_CO_TRY(co_await call.exchange.start(
          200, {{"content-type", "application/x-ndjson"}, {"cache-control", "no-store"}},
          deadline));
    }
    co_return co_await call.exchange.write(text, deadline);
  };
  auto result = co_await run_lines(call, held, request, sink);
  if (!result) {
    if (!call.exchange.started()) co_return result;
    json::object line = error_json(result.error());
    line["type"] = "failure";
    FB_CO_TRY(co_await call.exchange.write(json::serialize(line) + "\n", deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

// Everything in one answer: {run, state, stdout, stderr, results, error?, status, ...}.
net::Task<Result<>> collect_run(Call& call, const control::Lease& held,
                                const CodeRequest& request) {
  std::string all;
  auto sink = [&all](std::string text) -> net::Task<Result<>> {
    all += text;
    if (all.size() > kMaxCollected)
      co_return fail(Code::exhausted, "the output is larger than 16 MiB; use \"stream\": true");
    co_return Result<>();
  };
  FB_CO_TRY(co_await run_lines(call, held, request, sink));
  std::string out;
  std::string err;
  json::array results;
  json::object answer;
  for (std::string_view line : split(all, '\n')) {
    if (line.empty()) continue;
    FB_CO_TRY_ASSIGN(json::object object, parse_json_object(line));
    const std::string type(object.at("type").as_string());
    object.erase("type");
    if (type == "stdout" || type == "stderr") {
      std::string& to = type == "stdout" ? out : err;
      if (const json::value* data = object.if_contains("data"))
        to += data->as_string();
      else
        to += "\xef\xbf\xbd";  // not text: as one replacement character
    } else if (type == "result") {
      results.push_back(std::move(object));
    } else if (type == "error") {
      answer["error"] = std::move(object);
    } else if (type == "started" || type == "done") {
      for (auto& member : object) answer[member.key()] = std::move(member.value());
    }
  }
  answer["stdout"] = out;
  answer["stderr"] = err;
  answer["results"] = std::move(results);
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> interrupt(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY(check_known(body, {"run"}));
  JsonReader reader(body);
  const std::string run = reader.string_or("run", "");
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  const std::string& context = call.param("context");
  bool hit = false;
  if (run.empty()) {
    FB_CO_TRY_ASSIGN(hit, co_await held.agent().interrupt_context(context, call.deadline));
  } else {
    FB_CO_TRY_ASSIGN(hit, co_await held.agent().interrupt_run(context, run, call.deadline));
  }
  co_return co_await call.reply_json(200, json::object{{"interrupted", hit}});
}

net::Task<Result<>> run(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(json::object body, co_await call.json_body());
  FB_CO_TRY(check_known(body, {"code", "timeoutMs", "stream"}));
  JsonReader reader(body);
  const CodeRequest request{.code = reader.string("code"),
                            .timeout_ms = reader.u64_or("timeoutMs", 0)};
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  held.count(request.code.size(), 0);
  if (stream) co_return co_await stream_run(call, held, request);
  co_return co_await collect_run(call, held, request);
}

}  // namespace

void NativeApi::add_context_routes() {
  control::Supervisor& s = supervisor_;
  router_.add({"POST", "/v1/microvms/{id}/contexts",
               "Start an interpreter: {language: python|bash|node, cwd, env, user, id}", false,
               [&s](Call& call) { return create(s, call); }});
  router_.add({"GET", "/v1/microvms/{id}/contexts", "List contexts", false,
               [&s](Call& call) { return pass_on(s, call, "GET", "/contexts"); }});
  router_.add({"GET", "/v1/microvms/{id}/contexts/{context}", "One context", false,
               [&s](Call& call) { return pass_on(s, call, "GET", context_path(call)); }});
  router_.add({"DELETE", "/v1/microvms/{id}/contexts/{context}", "End a context", false,
               [&s](Call& call) { return pass_on(s, call, "DELETE", context_path(call)); }});
  router_.add({"POST", "/v1/microvms/{id}/contexts/{context}/run",
               "Run code in it: {code, timeoutMs, stream}; variables stay for the next run", false,
               [&s](Call& call) { return run(s, call); }});
  router_.add({"POST", "/v1/microvms/{id}/contexts/{context}/interrupt",
               "Interrupt what runs: {run} only that run; {interrupted: false} when it does not",
               false, [&s](Call& call) { return interrupt(s, call); }});
  router_.add(
      {"POST", "/v1/microvms/{id}/contexts/{context}/restart", "Start it afresh, same id", false,
       [&s](Call& call) { return pass_on(s, call, "POST", context_path(call) + "/restart"); }});
}

}  // namespace firebreak::api
