// Routes of contexts: stateful interpreters in the guest.
#include "api/native/guest_call.h"
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "session/code.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(24);

json::object context_json(const session::Context& context) {
  json::object object{{"id", context.id},
                      {"language", context.language},
                      {"state", context.state},
                      {"executionCount", context.execution_count},
                      {"restarts", context.restarts}};
  if (!context.last_run.empty()) object["run"] = context.last_run;
  return object;
}

json::object artifact_json(const session::Artifact& artifact) {
  json::object object{{"kind", artifact.kind}, {"main", artifact.main}, {"index", artifact.index}};
  // Of the kind json the value itself, as the guest gave it.
  auto value = artifact.kind == "json" ? parse_json(artifact.data) : Result<json::value>(nullptr);
  if (artifact.kind == "json" && value)
    object["data"] = *std::move(value);
  else
    object["data"] = artifact.data;
  if (artifact.truncated) object["truncated"] = true;
  return object;
}

json::object started_members(const session::CodeStarted& started) {
  json::object object{{"run", started.run}};
  if (!started.state.empty()) object["state"] = started.state;
  return object;
}

json::object error_members(const session::CodeError& error) {
  json::array traceback;
  for (const std::string& line : error.traceback) traceback.emplace_back(line);
  return {{"name", error.name}, {"message", error.message}, {"traceback", std::move(traceback)}};
}

json::object done_members(const session::CodeDone& done) {
  json::object object{{"status", done.status},
                      {"executionCount", done.execution_count},
                      {"durationMs", done.duration.count()}};
  if (done.ending) object["exit"] = ending_json(*done.ending);
  return object;
}

// One event as lines of JSON.
class CodeLines {
 public:
  std::string of(const session::CodeEvent& event) {
    std::string text;
    if (const auto* chunk = std::get_if<session::Chunk>(&event)) {
      lines_.add(*chunk, text);
      return text;
    }
    lines_.flush(text);
    if (const auto* gap = std::get_if<session::Gap>(&event)) OutputLines::add(*gap, text);
    if (const auto* started = std::get_if<session::CodeStarted>(&event))
      put("started", started_members(*started), text);
    if (const auto* artifact = std::get_if<session::Artifact>(&event))
      put("result", artifact_json(*artifact), text);
    if (const auto* error = std::get_if<session::CodeError>(&event))
      put("error", error_members(*error), text);
    if (const auto* done = std::get_if<session::CodeDone>(&event))
      put("done", done_members(*done), text);
    return text;
  }

 private:
  static void put(std::string_view type, json::object members, std::string& text) {
    json::object line{{"type", type}};
    for (auto& member : members) line[member.key()] = std::move(member.value());
    text += json::serialize(line) + "\n";
  }

  OutputLines lines_;
};

net::Task<Result<>> stream_run(Call& call, const session::Guest& guest, session::Snippet snippet) {
  CodeLines lines;
  auto sink = [&](session::CodeEvent event) -> net::Task<Result<>> {
    FB_CO_TRY(co_await start_lines(call));
    const std::string text = lines.of(event);
    if (text.empty()) co_return Result<>();
    co_return co_await call.exchange.write(text, Deadline::in(kStreamDeadline));
  };
  ExchangePresence caller(call.exchange);
  auto result =
      co_await session::stream_code(guest, std::move(snippet), caller, sink, call.deadline);
  co_return co_await finish_lines(call, std::move(result), "failure");
}

// Printed text as JSON can hold it: bytes that are no text become replacement characters.
std::string as_text(const std::string& bytes) {
  std::size_t tail = 0;
  return is_utf8(bytes, tail) && tail == 0 ? bytes : replace_invalid_utf8(bytes);
}

// Everything in one answer: {run, state, stdout, stderr, results, error?, status, ...}.
net::Task<Result<>> collect_run(Call& call, const session::Guest& guest, session::Snippet snippet) {
  ExchangePresence caller(call.exchange);
  FB_CO_TRY_ASSIGN(const session::CodeResult result,
                   co_await session::run_code(guest, std::move(snippet), caller, call.deadline));
  json::object answer = started_members(result.started);
  for (auto& member : done_members(result.done)) answer[member.key()] = member.value();
  answer["stdout"] = as_text(result.output.out.bytes);
  answer["stderr"] = as_text(result.output.err.bytes);
  json::array results;
  for (const session::Artifact& artifact : result.output.artifacts)
    results.push_back(artifact_json(artifact));
  answer["results"] = std::move(results);
  if (result.error) answer["error"] = error_members(*result.error);
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> run(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::Snippet snippet{.context = call.param("context"),
                           .text = reader.string("code"),
                           .timeout = std::chrono::milliseconds(reader.u64_or("timeoutMs", 0))};
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  if (stream) co_return co_await stream_run(call, guest, std::move(snippet));
  co_return co_await collect_run(call, guest, std::move(snippet));
}

net::Task<Result<>> create(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::NewContext wanted;
  wanted.language = reader.string("language");
  wanted.env = reader.string_map_or_empty("env");
  wanted.cwd = reader.string_or("cwd", "");
  wanted.user = reader.string_or("user", "");
  wanted.id = reader.string_or("id", "");
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto made,
                   co_await session::create_context(guest, std::move(wanted), call.deadline));
  co_return co_await call.reply_json(201, context_json(made));
}

net::Task<Result<>> list(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto all, co_await session::list_contexts(guest, call.deadline));
  json::array contexts;
  for (const session::Context& context : all) contexts.push_back(context_json(context));
  co_return co_await call.reply_json(200, json::object{{"contexts", std::move(contexts)}});
}

net::Task<Result<>> show(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto found,
                   co_await session::find_context(guest, call.param("context"), call.deadline));
  co_return co_await call.reply_json(200, context_json(found));
}

net::Task<Result<>> remove(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::remove_context(guest, call.param("context"), call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> restart(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const auto status,
                   co_await session::restart_context(guest, call.param("context"), call.deadline));
  co_return co_await call.reply_json(200, context_json(status));
}

net::Task<Result<>> interrupt(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  std::optional<std::string> run;
  if (std::string name = reader.string_or("run", ""); !name.empty()) run = std::move(name);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(const bool hit, co_await session::interrupt(guest, call.param("context"),
                                                               std::move(run), call.deadline));
  co_return co_await call.reply_json(200, json::object{{"interrupted", hit}});
}

}  // namespace

void NativeApi::add_context_routes() {
  session::Guests& g = guests_;
  router_.add({"POST", "/v1/microvms/{id}/contexts", "Start an interpreter", false,
               Carries::guest_bytes, [&g](Call& call) { return create(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/contexts", "List contexts", false, Carries::guest_bytes,
               [&g](Call& call) { return list(g, call); }});
  router_.add({"GET", "/v1/microvms/{id}/contexts/{context}", "One context", false,
               Carries::guest_bytes, [&g](Call& call) { return show(g, call); }});
  router_.add({"DELETE", "/v1/microvms/{id}/contexts/{context}", "End a context", false,
               Carries::guest_bytes, [&g](Call& call) { return remove(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/contexts/{context}/run",
               "Run code in it; variables stay for the next run", false, Carries::guest_bytes,
               [&g](Call& call) { return run(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/contexts/{context}/interrupt",
               "Interrupt what runs, or only one run; {interrupted: false} when it does not run",
               false, Carries::guest_bytes, [&g](Call& call) { return interrupt(g, call); }});
  router_.add({"POST", "/v1/microvms/{id}/contexts/{context}/restart", "Start it afresh, same id",
               false, Carries::guest_bytes, [&g](Call& call) { return restart(g, call); }});
}

}  // namespace firebreak::api
