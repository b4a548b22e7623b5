// execute_code, run_command and process.
#include "api/mcp/tool_support.h"
#include "base/text.h"
#include "session/background.h"

namespace firebreak::api::mcp {
namespace {

constexpr std::uint64_t kDay = 86400;
constexpr std::uint64_t kLongestWait = 3600;
constexpr const char* kCodePrefix = "code:";  // of a run: "code:CONTEXT:RUN"
constexpr int kKill = 9;

std::string process_of(const session::CodeView& view) {
  return kCodePrefix + percent_encode(view.context, "") + ":" + view.result.started.run;
}

struct CodeProcess {
  std::string context;
  std::string run;
};
std::optional<CodeProcess> code_process(const std::string& id) {
  if (!id.starts_with(kCodePrefix)) return std::nullopt;
  const auto parts = split(id, ':');
  if (parts.size() != 3) return std::nullopt;
  auto context = percent_decode(parts[1]);
  if (!context) return std::nullopt;
  return CodeProcess{*std::move(context), std::string(parts[2])};
}

// ------------------------------------------------------------------------------------------- code

// What the code showed beside text: pictures and files as blocks.
void add_artifacts(const session::CodeView& view, const core::MicrovmId& sandbox,
                   ToolResult& result) {
  json::array shown;
  for (const session::Artifact& artifact : view.result.output.artifacts) {
    json::object item{{"kind", artifact.kind}};
    const std::string& kind = artifact.kind;
    const std::string uri = "sandbox://" + sandbox.str() + "/results/" + view.result.started.run +
                            "/" + std::to_string(artifact.index) + "." + kind;
    if (kind == "png" || kind == "jpeg") {
      result.blocks.push_back(image_block(artifact.data, "image/" + kind));
    } else if (kind == "pdf") {
      result.blocks.push_back(blob_resource(uri, "application/pdf", artifact.data));
    } else if (kind == "svg") {
      result.blocks.push_back(text_resource(uri, "image/svg+xml", artifact.data));
    } else {
      item["text"] = artifact.data;
      if (artifact.main && kind == "text") result.structured["result"] = artifact.data;
    }
    shown.push_back(std::move(item));
  }
  result.structured["results"] = std::move(shown);
}

json::object error_json(const session::CodeError& error) {
  std::string traceback;
  for (const std::string& line : error.traceback) traceback += line + "\n";
  return {{"name", error.name}, {"message", error.message}, {"traceback", traceback}};
}

void add_output(const session::RunResult& output, std::uint64_t lost, json::object& to) {
  to["stdout"] = as_text(output.out.bytes);
  to["stderr"] = as_text(output.err.bytes);
  to["truncated"] = output.out.truncated() || output.err.truncated() || lost > 0;
  to["duration_ms"] = output.duration.count();
}

ToolResult code_result(const session::CodeView& view, const core::MicrovmId& sandbox) {
  ToolResult result;
  json::object& to = result.structured;
  to["sandbox_id"] = sandbox.str();
  to["context_id"] = view.context;
  to["status"] = view.running ? "running" : view.result.done.status;
  add_output(view.result.output, view.lost, to);
  if (view.left_out) to["truncated"] = true;
  if (!view.result.started.state.empty()) to["state"] = view.result.started.state;
  if (view.result.error) to["error"] = error_json(*view.result.error);
  add_artifacts(view, sandbox, result);
  if (view.running) {
    to["process_id"] = process_of(view);
    to["cursor"] = view.cursor;
  }
  result.failed = !view.running && view.result.done.status != "ok";
  return result;
}

// Who calls a context while another call waits for it is served next. Code that was left running
// has to be looked after first.
Error busy(const session::CodeView& view, const Error& error) {
  Error told = error;
  told.message = "the interpreter '" + view.context +
                 "' is busy with code that was left running; read it or end it with the tool "
                 "'process' (action list shows it), or use another context_id";
  return told;
}

}  // namespace

net::Task<Result<ToolResult>> execute_code(ToolCall& call) {
  JsonReader reader(call.arguments);
  session::NewContext context;
  context.language = reader.string_or("language", "python");
  if (context.language != "python" && context.language != "bash" && context.language != "node")
    reader.reject("language", "must be python, bash or node");
  // The image has a warm interpreter of that name.
  context.id =
      reader.string_or("context_id", context.language == "python" ? "default" : context.language);
  session::Snippet code{.context = {},
                        .text = reader.string("code"),
                        .timeout = std::chrono::seconds(bounded(reader, "timeout_s", 0, 0, kDay))};
  const std::uint64_t wait = bounded(reader, "wait_s", kUsualWait, 1, kLongestWait);
  FB_CO_TRY(reader.result());
  if (!reader.has("language") && reader.has("context_id")) context.language = "";
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  const core::MicrovmId sandbox = guest.microvm().id;
  session::Patience patience = patience_of(call, wait);
  const auto turn = co_await call.parts.turns.take(sandbox, context.id, patience.until);
  if (!turn)
    co_return fail(Code::conflict, "other calls of the interpreter '" + context.id + "' take long",
                   Repair{"try again, or use another context_id"});
  const session::CodeView asked{.context = context.id, .result = {}};
  auto view = co_await session::run_code_patiently(guest, std::move(context), std::move(code),
                                                   call.caller, std::move(patience));
  if (!view && view.error().code == Code::conflict && view.error().repair.empty())
    co_return std::unexpected(busy(asked, view.error()));
  FB_CO_TRY(view);
  co_return code_result(*view, sandbox);
}

// --------------------------------------------------------------------------------------- commands

namespace {

ToolResult command_result(const session::CommandView& view, const core::MicrovmId& sandbox) {
  ToolResult result;
  json::object& to = result.structured;
  to["sandbox_id"] = sandbox.str();
  to["process_id"] = view.id;
  to["running"] = view.running;
  add_output(view.output, view.lost, to);
  to["cursor"] = view.cursor;
  const session::Ending& ending = view.output.ending;
  if (ending.exit_code) to["exit_code"] = *ending.exit_code;
  if (ending.signal) to["signal"] = *ending.signal;
  if (ending.timed_out) to["timed_out"] = true;
  if (ending.out_of_memory) to["out_of_memory"] = true;
  result.failed = ending.timed_out || ending.out_of_memory;
  return result;
}

ToolResult code_read_result(const session::CodeView& view, const core::MicrovmId& sandbox) {
  ToolResult result;
  add_artifacts(view, sandbox, result);
  json::object& to = result.structured;
  to.clear();
  to["sandbox_id"] = sandbox.str();
  to["process_id"] = process_of(view);
  to["running"] = view.running;
  if (!view.running) to["status"] = view.result.done.status;
  add_output(view.result.output, view.lost, to);
  if (view.result.error)
    to["stderr"] = std::string(to["stderr"].as_string()) + view.result.error->name + ": " +
                   view.result.error->message + "\n";
  to["cursor"] = view.cursor;
  return result;
}

net::Task<Result<ToolResult>> list_processes(const session::Guest& guest) {
  const Deadline deadline = Deadline::in(kSoon);
  FB_CO_TRY_ASSIGN(const auto commands, co_await session::list_commands(guest, deadline));
  FB_CO_TRY_ASSIGN(const auto contexts, co_await session::list_contexts(guest, deadline));
  json::array all;
  for (const session::CommandStatus& status : commands) {
    json::object item{{"process_id", status.id},
                      {"running", status.running},
                      {"output_bytes", status.output_bytes}};
    if (status.ending && status.ending->exit_code) item["exit_code"] = *status.ending->exit_code;
    all.push_back(std::move(item));
  }
  for (const session::Context& context : contexts) {
    if (context.state != "busy") continue;
    all.push_back(json::object{
        {"process_id", kCodePrefix + percent_encode(context.id, "") + ":" + context.last_run},
        {"running", true}});
  }
  ToolResult result;
  result.structured = {{"sandbox_id", guest.microvm().id.str()}, {"processes", std::move(all)}};
  co_return result;
}

net::Task<Result<ToolResult>> read_process(ToolCall& call, const session::Guest& guest,
                                           std::string id, JsonReader& reader) {
  const std::uint64_t cursor = reader.u64_or("cursor", 0);
  const std::uint64_t wait = bounded(reader, "wait_s", 5, 0, kLongestWait);
  FB_CO_TRY(reader.result());
  session::Patience patience = patience_of(call, wait);
  // What is there already is given also to who does not wait.
  if (wait == 0) patience.until = Deadline::in(std::chrono::milliseconds(500));
  const core::MicrovmId sandbox = guest.microvm().id;
  if (auto code = code_process(id)) {
    FB_CO_TRY_ASSIGN(const session::CodeView view,
                     co_await session::read_code(guest, code->context, code->run, cursor,
                                                 call.caller, std::move(patience)));
    co_return code_read_result(view, sandbox);
  }
  FB_CO_TRY_ASSIGN(const session::CommandView view,
                   co_await session::read_command(guest, std::move(id), cursor, call.caller,
                                                  std::move(patience)));
  co_return command_result(view, sandbox);
}

net::Task<Result<>> write_process(const session::Guest& guest, const std::string& id,
                                  JsonReader& reader) {
  std::string input = reader.string_or("input", "");
  const bool end = reader.boolean_or("end_input", false);
  FB_CO_TRY(reader.result());
  if (code_process(id))
    co_return fail(Code::invalid, "code has no standard input", Repair{"use run_command instead"});
  FB_CO_TRY_ASSIGN(const session::CommandStatus status,
                   co_await session::command_status(guest, id, Deadline::in(kSoon)));
  co_return co_await session::send_input(guest, id, status.input_bytes, std::move(input), end,
                                         Deadline::in(kSoon));
}

net::Task<Result<>> kill_process(const session::Guest& guest, const std::string& id) {
  if (auto code = code_process(id)) {
    FB_CO_TRY(co_await session::interrupt(guest, code->context, code->run, Deadline::in(kSoon)));
    co_return Result<>();
  }
  co_return co_await session::send_signal(guest, id, kKill, true, Deadline::in(kSoon));
}

}  // namespace

net::Task<Result<ToolResult>> run_command(ToolCall& call) {
  JsonReader reader(call.arguments);
  session::Command command;
  command.shell = reader.string("command");
  command.cwd = reader.string_or("cwd", "");
  command.env = reader.string_map_or_empty("env");
  command.user = reader.string_or("user", "");
  command.timeout = std::chrono::seconds(bounded(reader, "timeout_s", 0, 0, kDay));
  std::string input = reader.string_or("stdin", "");
  const bool background = reader.boolean_or("background", false);
  const std::uint64_t wait = bounded(reader, "wait_s", kUsualWait, 0, kLongestWait);
  FB_CO_TRY(reader.result());
  if (command.shell.empty()) co_return fail(Code::invalid, "command is empty");
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  if (background) {
    command.open_stdin = input.empty();
    session::CommandView view;
    FB_CO_TRY_ASSIGN(view.id, co_await session::start(guest, std::move(command), std::move(input),
                                                      Deadline::in(kSoon)));
    view.running = true;
    co_return command_result(view, guest.microvm().id);
  }
  FB_CO_TRY_ASSIGN(const session::CommandView view,
                   co_await session::run_patiently(guest, std::move(command), std::move(input),
                                                   call.caller, patience_of(call, wait)));
  co_return command_result(view, guest.microvm().id);
}

net::Task<Result<ToolResult>> process(ToolCall& call) {
  JsonReader reader(call.arguments);
  const std::string action = reader.string("action");
  std::string id = reader.string_or("process_id", "");
  FB_CO_TRY(reader.result());
  if (action != "list" && id.empty())
    co_return fail(Code::invalid, "process_id is missing", Repair{"action list shows them"});
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  if (action == "list") co_return co_await list_processes(guest);
  if (action == "read") co_return co_await read_process(call, guest, std::move(id), reader);
  if (action == "write") {
    FB_CO_TRY(co_await write_process(guest, id, reader));
  } else if (action == "kill") {
    FB_CO_TRY(co_await kill_process(guest, id));
  } else {
    co_return fail(Code::invalid, "action must be list, read, write or kill");
  }
  ToolResult result;
  result.structured = {{"sandbox_id", guest.microvm().id.str()}, {"process_id", id}};
  co_return result;
}

}  // namespace firebreak::api::mcp
