// show, set, suspend, resume, fork, kill.
#include <memory>

#include "base/text.h"
#include "commands.h"
#include "life_options.h"

namespace firebreak::cli {
namespace {

// One call for each microVM; the others are still tried when one fails.
net::Task<Result<>> call_each(Client& client, const std::vector<std::string>& ids,
                              const char* method, const char* rest, bool as_json, int& status) {
  for (const std::string& id : ids) {
    auto answer = co_await client.call(method, microvm_path(id, rest));
    if (!answer) {
      print_error(id + ": " + answer.error().message);
      status = 1;
      continue;
    }
    if (as_json)
      print_json(*answer);
    else
      print_line(text_of(*answer, "id"));
  }
  co_return Result<>();
}

Option& add_ids(Command& command, std::vector<std::string>& ids) {
  return command.word("ID", ids, "Ids, names, or first letters of ids of microVMs")
      .kind(ValueKind::microvm);
}

void add_suspend_and_resume(Command& root, Common& common) {
  auto ids = std::make_shared<std::vector<std::string>>();
  Command& suspend = root.add("suspend", "Suspend microVMs, memory and disk kept in files");
  suspend.group(kMicrovmGroup).also({"pause"});
  suspend.about("Prints the ids. One that is suspended already is fine.");
  add_ids(suspend, *ids).required("'firebreak ps' lists them");
  add_json_flag(suspend, common);
  suspend.example("firebreak suspend ID", "the next call wakes it");
  suspend.example("firebreak suspend $(firebreak ps -q --filter state=running)", "all of yours");
  run_with_client(suspend, common, [ids, &common](Client& client, int& status) {
    return call_each(client, *ids, "POST", "/suspend", common.json, status);
  });
  Command& resume = root.add("resume", "Resume microVMs that are suspended");
  resume.group(kMicrovmGroup).also({"unpause", "wake"});
  resume.about("Prints the ids. One that runs already is fine.");
  add_ids(resume, *ids).required("'firebreak ps' lists them");
  add_json_flag(resume, common);
  resume.example("firebreak resume ID", "");
  resume.example("firebreak resume $(firebreak ps -q --filter state=suspended)", "all of yours");
  run_with_client(resume, common, [ids, &common](Client& client, int& status) {
    return call_each(client, *ids, "POST", "/resume", common.json, status);
  });
}

struct KillOptions {
  std::vector<std::string> ids;
  bool all = false;
};

net::Task<Result<>> kill(Client& client, const KillOptions& options, bool as_json, int& status) {
  std::vector<std::string> ids = options.ids;
  if (options.all) {
    FB_CO_TRY(
        co_await each_item(client, "/v1/microvms?pageSize=1000", [&ids](json::object microvm) {
          const std::string state = text_of(microvm, "state");
          if (state != "TERMINATED" && state != "TERMINATING")
            ids.push_back(text_of(microvm, "id"));
        }));
  }
  co_return co_await call_each(client, ids, "DELETE", "", as_json, status);
}

void add_kill(Command& root, Common& common) {
  auto options = std::make_shared<KillOptions>();
  Command& command = root.add("kill", "Terminate microVMs").group(kMicrovmGroup);
  command.also({"rm", "stop", "delete", "terminate"});
  command.about("Prints the ids. Nothing is asked. One that has ended already is fine.");
  add_ids(command, options->ids);
  command.flag("--all", options->all, "All of your tenant's")
      .excludes("ID", "name microVMs, or give --all");
  add_json_flag(command, common);
  command.example("firebreak kill ID", "");
  command.example("firebreak kill --all", "all microVMs of your tenant");
  command.check([options]() -> Result<> {
    if (options->all || !options->ids.empty()) return {};
    return fail(Code::invalid, "nothing says which microVM to end",
                Repair{"'firebreak ps' lists them, --all ends all of "
                       "yours"});
  });
  run_with_client(command, common, [options, &common](Client& client, int& status) {
    return kill(client, *options, common.json, status);
  });
}

struct ForkOptions {
  std::string id;
  std::uint32_t count = 1;
};

void add_fork(Command& root, Common& common) {
  auto options = std::make_shared<ForkOptions>();
  Command& fork = root.add("fork", "Make running copies of a microVM; prints their ids");
  fork.group(kMicrovmGroup).also({"clone", "copy"});
  fork.about("The copies begin at this moment, with everything that runs in the microVM.");
  add_microvm_word(fork, options->id);
  fork.option("-n,--count", options->count, "N", "How many").range(1, 64);
  add_json_flag(fork, common);
  fork.example("firebreak fork ID", "one copy");
  fork.example("firebreak fork ID -n 8", "");
  run_with_client(fork, common, [options, &common](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object made,
                     co_await client.call("POST", microvm_path(options->id, "/fork"),
                                          json::object{{"count", options->count}}));
    if (common.json)
      print_json(made.at("items"));
    else
      for (const json::value& child : made.at("items").as_array())
        print_line(text_of(child.as_object(), "id"));
    co_return Result<>();
  });
}

void add_show(Command& root, Common& common) {
  auto id = std::make_shared<std::string>();
  Command& show = root.add("show", "Print all about one microVM, as JSON").group(kMicrovmGroup);
  show.also({"inspect", "describe", "get"});
  show.about("Also why it is awake and what happens next. For a day after its end, too.");
  add_microvm_word(show, *id);
  show.example("firebreak show ID", "");
  show.example("firebreak show ID | jq -r .state", "one member");
  run_with_client(show, common, [id](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", microvm_path(*id)));
    print_json(answer);
    co_return Result<>();
  });
}

struct SetOptions {
  std::string id;
  LifeOptions life;
  bool no_idle = false;
  bool no_max = false;
  bool no_name = false;

  bool sleep_changes() const {
    return life.idle || life.suspended || life.rule || life.no_auto_resume;
  }
};

// The policy as it is, with what is to change.
net::Task<Result<json::object>> new_idle(Client& client, const SetOptions& options) {
  FB_CO_TRY_ASSIGN(const json::object microvm,
                   co_await client.call("GET", microvm_path(options.id)));
  json::object idle;
  if (const json::value* now = microvm.if_contains("idle"); now != nullptr && now->is_object())
    idle = now->as_object();
  else if (!options.life.idle)
    co_return fail(Code::invalid, options.id + " has no idle policy that could be changed",
                   Repair{"add --idle "
                          "SECONDS"});
  if (options.life.idle) idle["maxIdleSeconds"] = *options.life.idle;
  if (options.life.suspended) idle["suspendedSeconds"] = *options.life.suspended;
  if (options.life.rule) idle["rule"] = *options.life.rule;
  if (options.life.no_auto_resume) idle["autoResume"] = false;
  co_return idle;
}

net::Task<Result<>> set(Client& client, const SetOptions& options, bool as_json) {
  json::object body;
  if (options.no_idle) body["idle"] = nullptr;
  if (options.sleep_changes()) {
    FB_CO_TRY_ASSIGN(json::object idle, co_await new_idle(client, options));
    body["idle"] = std::move(idle);
  }
  if (options.no_max) body["maxDurationSeconds"] = nullptr;
  if (options.life.max) body["maxDurationSeconds"] = *options.life.max;
  if (options.no_name) body["name"] = nullptr;
  if (!options.life.name.empty()) body["name"] = options.life.name;
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("PATCH", microvm_path(options.id), body));
  if (as_json)
    print_json(answer);
  else
    print_line(text_of(answer, "id"));
  co_return Result<>();
}

void add_set(Command& root, Common& common) {
  auto options = std::make_shared<SetOptions>();
  Command& command = root.add("set", "Change when a microVM sleeps and ends, and its name");
  command.group(kMicrovmGroup).also({"update", "edit"});
  command.about("What is not named stays as it is. Prints the id.");
  add_microvm_word(command, options->id);
  add_life_options(command, options->life, false);
  // What is not given is not the default here, but what the microVM has.
  for (auto& option : command.options) option->otherwise.clear();
  command.flag("--no-idle", options->no_idle, "Never suspend it")
      .excludes("--idle")
      .excludes("--suspended")
      .excludes("--idle-rule")
      .excludes("--no-auto-resume");
  command.flag("--no-max", options->no_max, "Take its time limit away").excludes("--max");
  command.flag("--no-name", options->no_name, "Take its name away").excludes("--name");
  add_json_flag(command, common);
  command.example("firebreak set ID --idle 600 --suspended 3600", "");
  command.example("firebreak set ID --no-idle --name keeper", "");
  command.check([options]() -> Result<> {
    const bool any = options->sleep_changes() || options->no_idle || options->life.max ||
                     options->no_max || !options->life.name.empty() || options->no_name;
    if (!any) return fail(Code::invalid, "nothing to change", Repair{"see 'firebreak set --help'"});
    return options->life.name.empty() ? Result<>() : check_microvm_name(options->life.name);
  });
  run_with_client(command, common, [options, &common](Client& client, int&) {
    return set(client, *options, common.json);
  });
}

}  // namespace

void add_microvm_commands(Command& root, Common& common) {
  add_show(root, common);
  add_set(root, common);
  add_suspend_and_resume(root, common);
  add_fork(root, common);
  add_kill(root, common);
}

}  // namespace firebreak::cli
