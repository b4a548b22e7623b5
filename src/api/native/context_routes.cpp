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

// Runs code and gives every line to `sink`; returns after the "done" line.
template <class Sink>
net::Task<Result<>> run_lines(Call& call, const control::Lease& held, const json::object& body,
                              Sink sink) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  FB_CO_TRY_ASSIGN(auto stream,
                   held.agent().data_stream("POST", context_path(call) + "/run", false));
  FB_CO_TRY(co_await stream->write(json::serialize(body), deadline));
  stream->finish();
  FB_CO_TRY_ASSIGN(net::Reply head, co_await stream->head(deadline));
  if (head.status != 200) {
    FB_CO_TRY_ASSIGN(head.body, co_await stream->read(call.deadline));
    co_return std::unexpected(machine::agent_error(head));
  }
  wire::FrameDecoder decoder;
  OutputLines lines;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(deadline));
    if (bytes.empty()) co_return fail(Code::guest, "the context's output ended too early");
    held.count(0, bytes.size());
    decoder.feed(bytes);
    for (;;) {
      FB_CO_TRY_ASSIGN(auto frame, decoder.next());
      if (!frame) break;
      std::string text;
      FB_CO_TRY(add_lines(lines, *frame, text));
      if (!text.empty()) FB_CO_TRY(co_await sink(text));
      if (frame->type == wire::FrameType::done) co_return Result<>();
    }
  }
}

net::Task<Result<>> stream_run(Call& call, const control::Lease& held, const json::object& body) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  auto sink = [&](std::string text) -> net::Task<Result<>> {
    if (!call.exchange.started()) {
      FB_CO_TRY(co_await call.exchange.start(
          200, {{"content-type", "application/x-ndjson"}, {"cache-control", "no-store"}},
          deadline));
    }
    co_return co_await call.exchange.write(text, deadline);
  };
  auto result = co_await unless_gone(call.exchange, run_lines(call, held, body, sink));
  if (!result) {
    // Whoever asked may have gone: the code must not run on for nobody.
    (void)co_await held.agent().data_call("POST", context_path(call) + "/interrupt", {},
                                          Deadline::in(std::chrono::seconds(10)));
    if (!call.exchange.started()) co_return result;
    json::object line = error_json(result.error());
    line["type"] = "failure";
    FB_CO_TRY(co_await call.exchange.write(json::serialize(line) + "\n", deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

// Everything in one answer: {stdout, stderr, results, error?, status, ...}.
net::Task<Result<>> collect_run(Call& call, const control::Lease& held, const json::object& body) {
  std::string all;
  auto sink = [&all](std::string text) -> net::Task<Result<>> {
    all += text;
    if (all.size() > kMaxCollected)
      co_return fail(Code::exhausted, "the output is larger than 16 MiB; use \"stream\": true");
    co_return Result<>();
  };
  FB_CO_TRY(co_await unless_gone(call.exchange, run_lines(call, held, body, sink)));
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
    } else if (type == "done") {
      for (auto& member : object) answer[member.key()] = std::move(member.value());
    }
  }
  answer["stdout"] = out;
  answer["stderr"] = err;
  answer["results"] = std::move(results);
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> run(control::Supervisor& supervisor, Call& call) {
  FB_CO_TRY_ASSIGN(json::object body, co_await call.json_body());
  FB_CO_TRY(check_known(body, {"code", "timeoutMs", "stream"}));
  JsonReader reader(body);
  json::object request{{"code", reader.string("code")}};
  if (reader.has("timeoutMs")) request["timeout_ms"] = reader.u64("timeoutMs");
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  held.count(request.at("code").as_string().size(), 0);
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
  router_.add(
      {"POST", "/v1/microvms/{id}/contexts/{context}/interrupt", "Interrupt what runs", false,
       [&s](Call& call) { return pass_on(s, call, "POST", context_path(call) + "/interrupt"); }});
  router_.add(
      {"POST", "/v1/microvms/{id}/contexts/{context}/restart", "Start it afresh, same id", false,
       [&s](Call& call) { return pass_on(s, call, "POST", context_path(call) + "/restart"); }});
}

}  // namespace firebreak::api
