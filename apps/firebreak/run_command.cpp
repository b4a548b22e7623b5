// run: starts a microVM, and may run a command in it and end it afterwards.
#include <csignal>
#include <memory>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>

#include "base/text.h"
#include "commands.h"
#include "exec_stream.h"
#include "life_options.h"
#include "terminal.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

struct RunOptions {
  std::string image;
  std::string version;
  std::string payload;
  LifeOptions life;
  std::vector<std::string> tags;
  std::vector<std::string> env;
  std::string egress;
  std::string role;
  std::string memory;
  std::vector<std::string> command;
  bool remove = false;
  bool interactive = false;
  bool terminal = false;

  bool has_command() const { return !command.empty() || (interactive && terminal); }
};

// Memory is part of the snapshot that a microVM starts from: it can be asked for, not chosen.
net::Task<Result<>> check_memory(Client& client, const RunOptions& options) {
  FB_CO_TRY_ASSIGN(const json::object image,
                   co_await client.call("GET", "/v1/images/" + percent_encode(options.image, "")));
  const json::object* chosen = nullptr;
  for (const json::value& item : image.at("versions").as_array()) {
    const json::object& version = item.as_object();
    const bool fits = options.version.empty() ? text_of(version, "active") == "true"
                                              : text_of(version, "version") == options.version;
    const bool newer = chosen == nullptr || parse_u64(text_of(version, "createdAt")) >
                                                parse_u64(text_of(*chosen, "createdAt"));
    if (fits && newer) chosen = &version;
  }
  if (chosen == nullptr || text_of(*chosen, "memoryMib") == options.memory) co_return Result<>();
  co_return fail(Code::invalid,
                 "microVMs of " + options.image + ":" + text_of(*chosen, "version") + " have " +
                     text_of(*chosen, "memoryMib") + " MiB, which is fixed when an image is built",
                 Repair{"build one with "
                        "--memory " +
                        options.memory});
}

json::object run_body(const RunOptions& options) {
  const LifeOptions& life = options.life;
  json::object body{{"image", options.image}};
  if (!options.version.empty()) body["version"] = options.version;
  if (!options.payload.empty()) body["payload"] = options.payload;
  if (!options.egress.empty()) body["egress"] = options.egress;
  if (!options.role.empty()) body["role"] = options.role;
  if (!life.name.empty()) body["name"] = life.name;
  if (life.max) body["maxDurationSeconds"] = *life.max;
  if (life.idle) {
    body["idle"] = json::object{{"maxIdleSeconds", *life.idle},
                                {"suspendedSeconds", life.suspended.value_or(kDefaultSuspended)},
                                {"autoResume", !life.no_auto_resume},
                                {"rule", life.rule.value_or("work")}};
  }
  if (!options.tags.empty()) body["tags"] = object_of_pairs(options.tags);
  if (!options.env.empty()) body["env"] = object_of_pairs(options.env);
  return body;
}

// NAME:VERSION becomes both; NAME:latest the name alone, whose newest active version runs.
Result<> read_image(RunOptions& options) {
  const auto colon = options.image.find(':');
  if (colon == std::string::npos) return {};
  const std::string version = options.image.substr(colon + 1);
  if (!options.version.empty())
    return fail(Code::invalid, "'" + options.image + "' names a version, and so does --version",
                Repair{"leave one of them "
                       "out"});
  if (version != "latest") options.version = version;
  options.image.resize(colon);
  return {};
}

Result<> check_version(const RunOptions& options) {
  const std::string_view version = options.version;
  if (version.empty()) return {};
  const auto dot = version.find('.');
  if (dot != std::string_view::npos && parse_u64(version.substr(0, dot)) &&
      version.substr(dot) == ".0")
    return {};
  return fail(Code::invalid, "'" + options.version + "' is not a version",
              Repair{"versions are 1.0, 2.0 and so on, and "
                     "'firebreak image show " +
                     options.image + "' lists them"});
}

Result<> check_options(RunOptions& options) {
  FB_TRY(read_image(options));
  FB_TRY(check_version(options));
  if (!options.life.name.empty()) FB_TRY(check_microvm_name(options.life.name));
  if (options.interactive && options.terminal && !stdin_is_terminal())
    return fail(Code::invalid, "-t with -i needs a terminal, and standard input is none",
                Repair{"leave -t out"});
  if (options.has_command()) return {};
  if (options.interactive || options.terminal)
    return fail(Code::invalid, "there is no COMMAND to pass input to",
                Repair{"write -it together for a shell, or "
                       "'firebreak run IMAGE -- COMMAND'"});
  if (options.remove)
    return fail(Code::invalid,
                "--rm ends the microVM when its command has ended, and there is none",
                Repair{"write "
                       "'firebreak run --rm IMAGE -- COMMAND', or -it for a shell"});
  if (!options.env.empty())
    return fail(Code::invalid,
                "--env has nothing to work on: the application of the image runs already in its "
                "snapshot, with its own environment",
                Repair{"give a COMMAND ('firebreak run -e A=b IMAGE "
                       "-- COMMAND'), use 'firebreak exec -e', or 'firebreak image build --env'"});
  return {};
}

net::Task<Result<>> run_inside(Client& client, const RunOptions& options, const std::string& id,
                               int& status) {
  if (options.command.empty()) {
    const TerminalRequest shell{
        .id = id, .argv = {}, .command = {}, .env = {}, .cwd = {}, .user = {}};
    co_return co_await run_terminal(client, shell, status);
  }
  const ExecRequest request{.id = id,
                            .command = options.command,
                            .env = {},
                            .cwd = {},
                            .user = {},
                            .interactive = options.interactive,
                            .terminal = options.terminal,
                            .timeout = {}};
  co_return co_await run_exec(client, request, status);
}

// Ctrl-C while a microVM starts does not leave one behind that nobody knows of: its id is waited
// for, unless the signal comes twice.
net::Task<Result<json::object>> start(Client& client, json::object body,
                                      net::asio::signal_set& signals, int& signalled) {
  auto give_up = [&]() -> net::Task<Result<json::object>> {
    for (int count = 0; count < 2; ++count) {
      const auto [ec, signal] = co_await signals.async_wait(net::kNoThrow);
      if (ec) break;
      signalled = signal;
    }
    co_return fail(Code::timeout, "interrupted",
                   Repair{"'firebreak ps' shows whether the microVM started"});
  };
  auto either = co_await (client.call("POST", "/v1/microvms", std::move(body)) || give_up());
  co_return either.index() == 0 ? std::get<0>(std::move(either)) : std::get<1>(std::move(either));
}

net::Task<Result<>> run_and_remove(Client& client, const RunOptions& options, int& status) {
  net::asio::signal_set signals(client.io(), SIGINT, SIGTERM, SIGHUP);
  int signalled = 0;
  auto made = co_await start(client, run_body(options), signals, signalled);
  if (!made) {
    if (signalled != 0) status = kSignalStatus + signalled;
    co_return std::unexpected(made.error());
  }
  const std::string id = text_of(*made, "id");
  Result<> ended;
  if (signalled == 0) {
    auto wait = [&]() -> net::Task<Result<>> {
      const auto [ec, signal] = co_await signals.async_wait(net::kNoThrow);
      if (!ec) signalled = signal;
      co_return Result<>();
    };
    auto either = co_await (run_inside(client, options, id, status) || wait());
    ended = either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
  }
  if (signalled != 0) status = kSignalStatus + signalled;
  auto removed = co_await client.call("DELETE", microvm_path(id));
  if (!removed) print_error(id + " was not ended: " + removed.error().message);
  co_return ended;
}

net::Task<Result<>> run_microvm(Client& client, const RunOptions& options, bool as_json,
                                int& status) {
  if (!options.memory.empty()) FB_CO_TRY(co_await check_memory(client, options));
  if (options.remove) co_return co_await run_and_remove(client, options, status);
  FB_CO_TRY_ASSIGN(const json::object made,
                   co_await client.call("POST", "/v1/microvms", run_body(options)));
  const std::string id = text_of(made, "id");
  if (options.has_command()) {
    print_error(id + " runs on after the command; 'firebreak kill " + id + "' ends it");
    co_return co_await run_inside(client, options, id, status);
  }
  if (as_json)
    print_json(made);
  else
    print_line(id);
  co_return Result<>();
}

void add_options(Command& run, RunOptions& options, Common& common) {
  run.flag("--rm", options.remove, "End the microVM when COMMAND has ended, also when interrupted");
  run.flag("-i,--interactive", options.interactive, "Pass our standard input on to COMMAND");
  run.flag("-t,--tty", options.terminal, "Give COMMAND a terminal; -it without COMMAND is a shell");
  run.option("-e,--env", options.env, "NAME=VALUE",
             "Environment of COMMAND and of later execs; not of the application, which runs "
             "already in the snapshot")
      .pair();
  run.option("--version", options.version, "VERSION", "Version of the image, like 1.0")
      .fallback("the newest active one");
  run.option("--payload", options.payload, "TEXT",
             "For the application's run hook; at most 4096 bytes");
  add_life_options(run, options.life, true);
  run.option("--egress", options.egress, "NAME", "Egress policy ('firebreak egress ls')")
      .kind(ValueKind::policy)
      .fallback("the image's, else the tenant's");
  run.option("--role", options.role, "NAME", "Role whose credentials its programs find")
      .kind(ValueKind::role)
      .fallback("none");
  run.option("--memory", options.memory, "MIB",
             "What it must have; refused if the image was built with another size")
      .one_of({"512", "1024", "2048", "4096", "8192"})
      .fallback("the image's");
  run.option("--tag", options.tags, "KEY=VALUE", "A tag, for 'firebreak ps --filter'").pair();
  run.flag("--json", common.json, "Print the microVM as JSON").excludes("COMMAND");
}

}  // namespace

void add_run_command(Command& root, Common& common) {
  auto options = std::make_shared<RunOptions>();
  Command& run = root.add("run", "Start a microVM; prints its id, or runs a command in it");
  run.group(kMicrovmGroup).also({"start", "create", "launch"});
  run.about(
      "It returns when the microVM is RUNNING. With COMMAND, that is run in the new microVM: its\n"
      "output, its exit status; the microVM runs on unless --rm is given.\n"
      "Versions of an image are 1.0, 2.0 and so on; web:latest is the newest active one, as web "
      "is.");
  run.word("IMAGE", options->image, "NAME or NAME:VERSION of an image ('firebreak image ls')")
      .kind(ValueKind::image)
      .required("'firebreak image ls' lists them");
  run.rest("COMMAND", options->command, "Program and arguments to run in it");
  add_options(run, *options, common);
  run.example("firebreak run python --name demo --idle 600", "sleeps after ten idle minutes");
  run.example("firebreak run --rm -it python", "a shell in a microVM that is gone afterwards");
  run.example("firebreak run --rm python -- python3 -c 'print(6*7)'", "");
  run.check([options] { return check_options(*options); });
  run_with_client(run, common, [options, &common](Client& client, int& status) {
    return run_microvm(client, *options, common.json, status);
  });
}

}  // namespace firebreak::cli
