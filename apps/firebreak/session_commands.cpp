// session: code that agents run, and what is known of it.
#include <chrono>
#include <memory>
#include <utility>

#include <unistd.h>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kPilotAgent = "pilot";

std::string session_path(const std::string& id) {
  return "/v1/sessions/" + percent_encode(id, "");
}

net::Task<Result<>> list_sessions(const Common& common, Client& client, bool all) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("GET", all ? "/v1/sessions?all=1" : "/v1/sessions"));
  if (common.json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"SESSION", "AGENT", "TURN", "TEMPLATE", "STATE", "CALLS", "BEGUN"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& each = item.as_object();
    table.add({text_of(each, "id"), text_of(each, "agentId"), text_of(each, "turnId"),
               text_of(each, "template"), text_of(each, "state"), text_of(each, "calls"),
               age_of(each, "createdAt")});
  }
  table.print();
  co_return Result<>();
}

// The session, and what its calls came to.
net::Task<Result<>> show_session(const Common& common, Client& client, std::string id) {
  FB_CO_TRY_ASSIGN(json::object shown, co_await client.call("GET", session_path(id)));
  FB_CO_TRY_ASSIGN(
      const json::object calls,
      co_await client.call("GET", "/v1/invocations?session=" + percent_encode(id, "")));
  if (common.json) {
    shown["invocations"] = calls.at("items");
    print_json(shown);
    co_return Result<>();
  }
  print_json(shown);
  TextTable table({"INVOCATION", "EXIT STATUS", "MS", "STDOUT", "STDERR", "STARTED", "WHY"});
  for (const json::value& item : calls.at("items").as_array()) {
    const json::object& each = item.as_object();
    table.add({text_of(each, "invocation_id"), text_of(each, "exit_status"),
               text_of(each, "duration_ms"), text_of(each, "stdout_bytes"),
               text_of(each, "stderr_bytes"), text_of(each, "started_at"),
               text_of(each, "failure_reason")});
  }
  table.print();
  co_return Result<>();
}

struct RunOptions {
  std::string code;
  std::string agent = "cli";
  std::string turn;
  std::string template_name;
  std::string language;
};

json::object body_of(const RunOptions& options, const std::string& code) {
  json::object body{{"agentId", options.agent}, {"code", code}};
  if (!options.turn.empty()) body["turnId"] = options.turn;
  if (!options.template_name.empty()) body["template"] = options.template_name;
  if (!options.language.empty()) body["language"] = options.language;
  return body;
}

net::Task<Result<>> run_code(const Common& common, Client& client, const RunOptions& options,
                             int& status) {
  std::string code = options.code;
  if (code == "-") {
    FB_CO_TRY_ASSIGN(code, read_input(code));
  }
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("POST", "/v1/execute-code", body_of(options, code)));
  status = answer.at("ok").as_bool() ? 0 : 1;
  if (common.json) {
    print_json(answer);
    co_return Result<>();
  }
  for (const auto& [fd, stream] : {std::pair{STDOUT_FILENO, "stdout"}, {STDERR_FILENO, "stderr"}}) {
    LogOutput output(fd);
    FB_CO_TRY(output.write(text_of(answer, stream)));
    FB_CO_TRY(output.finish());
  }
  if (status != 0) print_error(text_of(answer, "error") + ": " + text_of(answer, "error_message"));
  co_return Result<>();
}

// ------------------------------------------------------------------------------------------- pilot

// Walks the whole path and says of each step whether it went as it must.
class Pilot {
 public:
  explicit Pilot(Client& client) : client_(client), turn_("pilot-" + new_turn()) {}

  net::Task<Result<bool>> walk() {
    FB_CO_TRY_ASSIGN(const json::object policy, co_await client_.call("GET", "/v1/policy"));
    step("sessions are turned on", policy.at("enabled").as_bool());
    FB_CO_TRY_ASSIGN(const json::object first, co_await execute("x = 'kept'\nprint(6 * 7)", turn_));
    step("code runs and its output comes back", text_of(first, "stdout") == "42\n");
    FB_CO_TRY_ASSIGN(const json::object second, co_await execute("print(x)", turn_));
    step("the turn keeps its state", text_of(second, "stdout") == "kept\n" &&
                                         second.at("session_id") == first.at("session_id"));
    FB_CO_TRY_ASSIGN(const json::object other, co_await execute("print(x)", turn_ + "-other"));
    step("another turn sees nothing of it",
         text_of(other, "stderr").find("NameError") != std::string::npos);
    FB_CO_TRY_ASSIGN(const json::object loud, co_await execute("print('x' * 300000)", turn_));
    step("long output is cut",
         loud.contains("stdout_truncated") && text_of(loud, "stdout").size() == 256UL * 1024);
    FB_CO_TRY(co_await records(text_of(first, "session_id"), text_of(loud, "invocation_id")));
    FB_CO_TRY(co_await end(turn_));
    FB_CO_TRY(co_await end(turn_ + "-other"));
    FB_CO_TRY_ASSIGN(const json::object session,
                     co_await client_.call("GET", session_path(text_of(first, "session_id"))));
    step("the session has ended", text_of(session, "state") == "ENDED");
    co_return failed_ == 0;
  }

 private:
  static std::string new_turn() {
    return std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  }
  void step(const std::string& what, bool well) {
    print_line((well ? "ok      " : "FAILED  ") + what);
    if (!well) ++failed_;
  }
  net::Task<Result<json::object>> execute(std::string code, std::string turn) {
    RunOptions options{.code = {}, .agent = kPilotAgent, .turn = std::move(turn)};
    co_return co_await client_.call("POST", "/v1/execute-code", body_of(options, code));
  }
  net::Task<Result<>> end(std::string turn) {
    FB_CO_TRY(co_await client_.call("POST", "/v1/turns/" + percent_encode(turn, "") + "/end",
                                    json::object{{"agentId", kPilotAgent}}));
    co_return Result<>();
  }
  net::Task<Result<>> records(std::string session, std::string invocation) {
    FB_CO_TRY_ASSIGN(
        const json::object rows,
        co_await client_.call("GET", "/v1/invocations?session=" + percent_encode(session, "")));
    step("every call has one record", rows.at("items").as_array().size() == 3);
    FB_CO_TRY_ASSIGN(const json::object policy, co_await client_.call("GET", "/v1/policy"));
    if (!policy.at("keepOutput").as_bool()) co_return Result<>();
    FB_CO_TRY_ASSIGN(const json::object all,
                     co_await client_.call(
                         "GET", "/v1/invocations/" + percent_encode(invocation, "") + "/output"));
    step("all that was printed is kept", text_of(all, "stdout").size() == 300001);
    co_return Result<>();
  }

  Client& client_;
  std::string turn_;
  int failed_ = 0;
};

net::Task<Result<>> pilot(Client& client, int& status) {
  Pilot steps(client);
  FB_CO_TRY_ASSIGN(const bool well, co_await steps.walk());
  status = well ? 0 : 1;
  co_return Result<>();
}

void add_run(Command& session, Common& common) {
  auto options = std::make_shared<RunOptions>();
  Command& run = session.add("run", "Run code as an agent; exits with 1 if it did not end well");
  run.word("CODE", options->code, "What is run; - reads standard input").required();
  run.option("--agent", options->agent, "AGENT", "On whose account");
  run.option("--turn", options->turn, "TURN", "Calls of a turn share a session");
  run.option("--template", options->template_name, "NAME", "Template of a new session")
      .fallback("default");
  run.option("--language", options->language, "LANGUAGE", "python, bash or node")
      .fallback("the template's first");
  add_json_flag(run, common);
  run.example("firebreak session run 'print(6 * 7)'", "in a session of its own");
  run.example("firebreak session run --turn t1 'x = 1'", "the turn's session keeps x");
  run_with_client(run, common, [&common, options](Client& client, int& status) {
    return run_code(common, client, *options, status);
  });
}

}  // namespace

void add_session_commands(Command& root, Common& common) {
  Command& session = root.add("session", "Run and watch code of agents").group(kInsideGroup);
  session.example("firebreak session run 'print(6 * 7)'", "checked, counted, run, recorded");
  session.example("firebreak session ls", "those that live");
  auto id = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  Command& ls = session.add("ls", "List sessions").also({"list"});
  ls.flag("-a,--all", *all, "Also those that ended");
  add_json_flag(ls, common);
  ls.example("firebreak session ls", "a table");
  ls.example("firebreak session ls --all --json", "all of them, for programs");
  run_with_client(ls, common, [&common, all](Client& client, int&) {
    return list_sessions(common, client, *all);
  });
  Command& show = session.add("show", "Print a session and the calls in it");
  show.word("SESSION", *id, "Its id ('firebreak session ls')").required();
  add_json_flag(show, common);
  show.example("firebreak session show session-0b9d3f5e-1111-4222-8333-444455556666", "");
  show.example("firebreak session ls --all", "shows the ids");
  run_with_client(show, common, [&common, id](Client& client, int&) {
    return show_session(common, client, *id);
  });
  add_run(session, common);
  Command& end = session.add("end", "End a session with all that it has").also({"rm", "stop"});
  end.word("SESSION", *id, "Its id ('firebreak session ls')").required();
  end.example("firebreak session end session-0b9d3f5e-1111-4222-8333-444455556666", "");
  end.example("firebreak session ls", "shows the ids");
  run_with_client(end, common, [id](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", session_path(*id)));
    co_return Result<>();
  });
  Command& pilot_command =
      session.add("pilot", "Walk the whole path once; exits with 0 if each step is well");
  pilot_command.about("For a fresh installation, and after every change of a tenant's policy.");
  pilot_command.example("firebreak session pilot", "prints each step");
  pilot_command.example("firebreak session pilot && echo ready", "");
  run_with_client(pilot_command, common,
                  [](Client& client, int& status) { return pilot(client, status); });
}

}  // namespace firebreak::cli
