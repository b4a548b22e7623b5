// Routes of sessions and of code that agents run in them.
#include "api/native/guest_call.h"
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "api/native/sandbox_json.h"

namespace firebreak::api {
namespace {

using session::Sandboxes;

constexpr auto kLineTime = std::chrono::minutes(5);

// The answer as the last of the lines that tell of it as it goes.
net::Task<Result<>> stream_answer(Call& call, Sandboxes& sandboxes, session::CodeRequest request) {
  OutputLines lines;
  auto sink = [&](session::CodeEvent event) -> net::Task<Result<>> {
    const auto* chunk = std::get_if<session::Chunk>(&event);
    if (chunk == nullptr) co_return Result<>();
    FB_CO_TRY(co_await start_lines(call));
    std::string text;
    lines.add(*chunk, text);
    if (text.empty()) co_return Result<>();
    co_return co_await call.exchange.write(text, Deadline::in(kLineTime));
  };
  ExchangePresence caller(call.exchange);
  auto answer = co_await sandboxes.execute(call.caller, std::move(request), caller, sink);
  if (!answer) co_return co_await finish_lines(call, std::unexpected(answer.error()), "failure");
  FB_CO_TRY(co_await start_lines(call));
  json::object last = to_json(*answer);
  last["type"] = "answer";
  std::string text;
  lines.flush(text);
  text += json::serialize(last) + "\n";
  FB_CO_TRY(co_await call.exchange.write(text, Deadline::in(kLineTime)));
  co_return co_await finish_lines(call, Result<>(), "failure");
}

net::Task<Result<>> answer_call(Call& call, Sandboxes& sandboxes, session::CodeRequest request,
                                bool stream) {
  if (stream) co_return co_await stream_answer(call, sandboxes, std::move(request));
  ExchangePresence caller(call.exchange);
  FB_CO_TRY_ASSIGN(const session::CodeAnswer answer,
                   co_await sandboxes.execute(call.caller, std::move(request), caller));
  co_return co_await call.reply_json(200, to_json(answer));
}

net::Task<Result<>> execute_code(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::CodeRequest request;
  request.agent = reader.string_or("agentId", call.caller.key.agent);
  request.turn = reader.string_or("turnId", "");
  request.template_name = reader.string_or("template", "");
  request.code = reader.string("code");
  request.language = reader.string_or("language", "");
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  co_return co_await answer_call(call, sandboxes, std::move(request), stream);
}

net::Task<Result<>> execute(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::CodeRequest request;
  request.session = core::SessionId(call.param("session"));
  request.code = reader.string("code");
  request.language = reader.string_or("language", "");
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  co_return co_await answer_call(call, sandboxes, std::move(request), stream);
}

net::Task<Result<>> exec(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::CodeRequest request;
  request.session = core::SessionId(call.param("session"));
  session::Command& command = request.command.emplace();
  command.argv = reader.strings_or_empty("argv");
  command.shell = reader.string_or("shell", "");
  command.env = reader.string_map_or_empty("env");
  command.cwd = reader.string_or("cwd", "");
  command.user = reader.string_or("user", "");
  if (command.argv.empty() == command.shell.empty())
    reader.reject("argv", "or shell must be given, and not both");
  const bool stream = reader.boolean_or("stream", false);
  FB_CO_TRY(reader.result());
  co_return co_await answer_call(call, sandboxes, std::move(request), stream);
}

net::Task<Result<>> create(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  session::NewSession wanted;
  wanted.agent = reader.string_or("agentId", call.caller.key.agent);
  wanted.turn = reader.string_or("turnId", "");
  wanted.template_name = reader.string_or("template", "");
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const auto made, co_await sandboxes.create(call.caller, std::move(wanted)));
  co_return co_await call.reply_json(201, to_json(made));
}

net::Task<Result<>> list(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const auto all, co_await sandboxes.list(call.caller, call.flag("all")));
  json::array items;
  for (const core::SandboxSession& each : all) items.push_back(to_json(each));
  co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
}

net::Task<Result<>> end_turn(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  const std::string agent = reader.string_or("agentId", call.caller.key.agent);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const bool ended,
                   co_await sandboxes.end_turn(call.caller, agent, call.param("turn")));
  co_return co_await call.reply_json(200, json::object{{"ended", ended}});
}

net::Task<Result<>> end(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const auto ended,
                   co_await sandboxes.end(call.caller, core::SessionId(call.param("session"))));
  co_return co_await call.reply_json(200, to_json(ended));
}

net::Task<Result<>> show(Sandboxes& sandboxes, Call& call) {
  FB_CO_TRY_ASSIGN(const auto found,
                   co_await sandboxes.find(call.caller, core::SessionId(call.param("session"))));
  co_return co_await call.reply_json(200, to_json(found));
}

}  // namespace

void NativeApi::add_session_routes() {
  Sandboxes& s = sandboxes_;
  router_.add({"POST", "/v1/execute-code",
               "Run an agent's code: checked, counted, in the turn's session, recorded", false,
               Carries::guest_bytes, [&s](Call& call) { return execute_code(s, call); }});
  router_.add({"POST", "/v1/turns/{turn}/end", "End the session of a turn: {agentId}", false,
               Carries::nothing, [&s](Call& call) { return end_turn(s, call); }});
  router_.add({"POST", "/v1/sessions", "Begin a session: {agentId, turnId, template}", false,
               Carries::nothing, [&s](Call& call) { return create(s, call); }});
  router_.add({"GET", "/v1/sessions", "List sessions; ?all=1: also those that ended", false,
               Carries::nothing, [&s](Call& call) { return list(s, call); }});
  router_.add({"GET", "/v1/sessions/{session}", "One session", false, Carries::nothing,
               [&s](Call& call) { return show(s, call); }});
  router_.add({"DELETE", "/v1/sessions/{session}", "End a session with all that it has", false,
               Carries::nothing, [&s](Call& call) { return end(s, call); }});
  router_.add({"POST", "/v1/sessions/{session}/execute",
               "Run code in a session: {code, language, stream}", false, Carries::guest_bytes,
               [&s](Call& call) { return execute(s, call); }});
  router_.add({"POST", "/v1/sessions/{session}/exec",
               "Run a command in a session: {argv or shell}; counted and recorded as code is",
               false, Carries::guest_bytes, [&s](Call& call) { return exec(s, call); }});
  // Files of a session are those of its microVM: the same handlers, by the session's name.
  constexpr std::string_view kFiles = "/v1/microvms/{id}/files";
  constexpr std::string_view kTar = "/v1/microvms/{id}/tar";
  const std::vector<Route> known = router_.routes();
  for (Route route : known) {
    if (!route.pattern.starts_with(kFiles) && route.pattern != kTar) continue;
    route.pattern = "/v1/sessions/{session}" + route.pattern.substr(kMicrovmPath.size());
    route.summary += ", in a session";
    router_.add(std::move(route));
  }
}

}  // namespace firebreak::api
