// exec, logs: what a guest prints, as it prints it; the exit status is the remote one's.
#include <algorithm>
#include <map>
#include <memory>

#include <unistd.h>

#include "commands.h"
#include "exec_stream.h"
#include "log_tail.h"
#include "terminal.h"

namespace firebreak::cli {
namespace {

void add_exec(Command& root, Common& common) {
  auto request = std::make_shared<ExecRequest>();
  Command& exec = root.add("exec", "Run a command in a microVM").group(kInsideGroup);
  exec.about(
      "Everything after the first '--', or from the first word after ID on, belongs to the "
      "command.\n"
      "Its standard output and error stay apart. The exit status is the command's; 128 + N when\n"
      "signal N ended it, 124 at the time limit, 127 for a program that is not there, 126 for one\n"
      "that cannot be run. What it left in the background goes on.");
  add_microvm_word(exec, request->id);
  exec.rest("COMMAND", request->command, "Program and arguments")
      .required("write 'firebreak exec ID -- COMMAND'; a terminal is 'firebreak shell ID'");
  exec.flag("-i,--interactive", request->interactive, "Pass our standard input on");
  exec.flag("-t,--tty", request->terminal, "Give it a terminal")
      .excludes("--timeout", "the terminal has no time limit; leave one of them out");
  exec.option("-e,--env", request->env, "NAME=VALUE", "Environment, added to the image's").pair();
  exec.option("-w,--cwd", request->cwd, "DIR", "Directory to start in").fallback("the image's");
  exec.option("-u,--user", request->user, "USER", "Name, uid, or uid:gid")
      .fallback("the image's USER, else root");
  exec.option("--timeout", request->timeout, "SECONDS",
              "Kill all it started after so long; fractions are allowed")
      .range(0.001, 86400, "leave it out for no time limit")
      .fallback("none");
  exec.example("firebreak exec ID -- sh -c 'echo $HOME'", "output, and the command's exit status");
  exec.example("firebreak exec ID -it -- bash", "with a terminal");
  exec.check([request]() -> Result<> {
    if (!request->terminal || !request->interactive || stdin_is_terminal()) return {};
    return fail(Code::invalid, "-t with -i needs a terminal, and standard input is none",
                Repair{"leave -t out"});
  });
  run_with_client(exec, common, [request](Client& client, int& status) {
    return run_exec(client, *request, status);
  });
}

struct LogOptions {
  std::string id;
  bool follow = false;
  std::optional<std::uint64_t> tail;
};

net::Task<Result<>> read_log(Client& client, const LogOptions& options, bool follow, int& status,
                             const Write& write) {
  co_return co_await client.lines(
      "GET", microvm_path(options.id, follow ? "/logs?follow=1" : "/logs"), std::nullopt,
      [&](json::object line) { return show_line(line, status, write); });
}

net::Task<Result<>> show_log(Client& client, const LogOptions& options, int& status,
                             const Write& write) {
  if (!options.tail) co_return co_await read_log(client, options, options.follow, status, write);
  LogTail tail(*options.tail);
  const Write keep = [&tail](int fd, std::string_view bytes) {
    tail.add(fd, bytes);
    return Result<>();
  };
  FB_CO_TRY(co_await read_log(client, options, false, status, keep));
  for (const auto& [fd, text] : tail.lines()) FB_CO_TRY(write(fd, text));
  if (!options.follow) co_return Result<>();
  // The log only grows, so what was there before is left out of what is followed now.
  std::map<int, std::size_t> known = tail.seen();
  const Write fresh = [&](int fd, std::string_view bytes) {
    const std::size_t old = std::min(known[fd], bytes.size());
    known[fd] -= old;
    return write(fd, bytes.substr(old));
  };
  co_return co_await read_log(client, options, true, status, fresh);
}

void add_logs(Command& root, Common& common) {
  auto options = std::make_shared<LogOptions>();
  Command& logs = root.add("logs", "Print what the image's application wrote").group(kInsideGroup);
  logs.also({"log"});
  logs.about(
      "Also while the microVM is suspended, and for a day after its end. The first 8 MiB are "
      "kept.");
  add_microvm_word(logs, options->id);
  logs.flag("-f,--follow", options->follow, "Go on as it prints more, until the microVM ends");
  logs.option("-n,--tail", options->tail, "N", "Only the last N lines")
      .range(0, 1e9)
      .fallback("all");
  logs.example("firebreak logs ID", "all that was kept");
  logs.example("firebreak logs -f --tail 20 ID", "the last lines, and what comes");
  run_with_client(logs, common, [options](Client& client, int& status) -> net::Task<Result<>> {
    LogOutput out(STDOUT_FILENO);
    LogOutput err(STDERR_FILENO);
    const Write write = [&](int fd, std::string_view bytes) {
      return (fd == STDOUT_FILENO ? out : err).write(bytes);
    };
    FB_CO_TRY(co_await show_log(client, *options, status, write));
    FB_CO_TRY(out.finish());
    co_return err.finish();
  });
}

}  // namespace

void add_exec_commands(Command& root, Common& common) {
  add_exec(root, common);
  add_logs(root, common);
}

}  // namespace firebreak::cli
