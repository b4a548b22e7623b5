// exec, code, logs: what a guest prints, as it prints it; the exit status is the remote one's.
#include <csignal>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <unistd.h>

#include "base/printable.h"
#include "base/sys.h"
#include "base/text.h"
#include "commands.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

constexpr int kSignalStatus = 128;
constexpr int kTimeoutStatus = 124;

std::string bytes_of(const json::object& line) {
  if (const json::value* data = line.if_contains("data"); data != nullptr && data->is_string())
    return std::string(data->as_string());
  return wire::from_base64(text_of(line, "dataBase64")).value_or("");
}

// Takes what a program in the guest wrote, for one of our descriptors.
using Write = std::function<Result<>(int fd, std::string_view bytes)>;

// Prints one line of an output stream; sets the status at the end of it.
Result<> show_line(const json::object& line, int& status, const Write& write) {
  const std::string type = text_of(line, "type");
  if (type == "stdout" || type == "stderr")
    return write(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, bytes_of(line));
  if (type == "gap") print_error(text_of(line, "bytes") + " bytes of output were dropped");
  if (type == "exit") {
    if (const auto code = parse_u64(text_of(line, "exitCode"))) status = static_cast<int>(*code);
    if (const auto signal = parse_u64(text_of(line, "signal")))
      status = kSignalStatus + static_cast<int>(*signal);
    if (text_of(line, "timedOut") == "true") {
      print_error("the command was ended at its time limit");
      status = kTimeoutStatus;
    }
    if (text_of(line, "outOfMemory") == "true") print_error("the guest ran out of memory");
  }
  if (type == "error" || type == "failure") return fail(Code::guest, text_of(line, "message"));
  return {};
}

struct ExecOptions {
  std::string id;
  std::vector<std::string> command;
  std::vector<std::string> env;
  std::string cwd;
  std::string user;
  bool interactive = false;
  double timeout = 0;
};

Result<json::object> exec_body(const ExecOptions& options) {
  json::array argv;
  // "exec ID -- COMMAND": the parser leaves the dashes in.
  const bool dashes = !options.command.empty() && options.command.front() == "--";
  for (std::size_t i = dashes ? 1 : 0; i < options.command.size(); ++i)
    argv.emplace_back(options.command[i]);
  json::object body{{"argv", std::move(argv)}};
  json::object env;
  for (const std::string& entry : options.env) {
    const auto at = entry.find('=');
    if (at == std::string::npos) return fail(Code::invalid, "--env needs NAME=VALUE");
    env[entry.substr(0, at)] = entry.substr(at + 1);
  }
  if (!env.empty()) body["env"] = std::move(env);
  if (!options.cwd.empty()) body["cwd"] = options.cwd;
  if (!options.user.empty()) body["user"] = options.user;
  if (options.timeout > 0) body["timeoutMs"] = static_cast<std::uint64_t>(options.timeout * 1000);
  return body;
}

// Our stdin to the exec's, until either ends.
net::Task<Result<>> send_stdin(Client& client, std::string path) {
  FB_CO_TRY_ASSIGN(UniqueFd copy, sys::dup(STDIN_FILENO));
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("POST", path + "/stdin?eof=1", true));
  // Files cannot be waited for; reading them does not block for long.
  struct stat st{};
  const bool waits = ::fstat(STDIN_FILENO, &st) == 0 && !S_ISREG(st.st_mode);
  std::string buffer(64UL * 1024, '\0');
  net::asio::posix::stream_descriptor input(client.io());
  if (waits) input.assign(copy.release());
  for (;;) {
    if (waits) {
      auto [ec] =
          co_await input.async_wait(net::asio::posix::stream_descriptor::wait_read, net::kNoThrow);
      if (ec) break;
    }
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count <= 0) break;
    // It may answer, that nobody reads this any more, before it has taken everything.
    if (!co_await stream->write(std::string_view(buffer).substr(0, static_cast<std::size_t>(count)),
                                far_away()))
      co_return co_await Client::check(*stream);
  }
  FB_CO_TRY(co_await stream->finish(far_away()));
  co_return co_await Client::check(*stream);
}

// What an exec or code prints is the user's own session: it may colour and move as it likes.
Result<> pass_on(int fd, std::string_view bytes) {
  return sys::write_all(fd, bytes);
}

net::Task<Result<>> follow(Client& client, std::string path, int& status, Write write) {
  co_return co_await client.lines(
      "GET", path, std::nullopt, [&](json::object line) { return show_line(line, status, write); });
}

net::Task<Result<>> exec_with_stdin(Client& client, const std::string& id, json::object body,
                                    int& status) {
  body["openStdin"] = true;
  FB_CO_TRY_ASSIGN(const json::object made,
                   co_await client.call("POST", microvm_path(id, "/execs"), body));
  const std::string path = microvm_path(id, "/execs/" + percent_encode(text_of(made, "exec"), ""));
  auto input = [](Client& client, std::string path) -> net::Task<Result<>> {
    auto sent = co_await send_stdin(client, path);
    // The end of our input is not the end of the command, nor is it if it reads no more of it.
    net::Event never(client.io().get_executor());
    if (sent || sent.error().code == Code::not_found || sent.error().code == Code::conflict)
      (void)co_await never.wait(far_away());
    co_return sent;
  };
  auto either = co_await (follow(client, path + "/output", status, pass_on) || input(client, path));
  (void)co_await client.call("DELETE", path);
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

void add_exec(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto options = std::make_shared<ExecOptions>();
  CLI::App* exec = app.add_subcommand("exec", "Run a command in a microVM: exec ID -- COMMAND...");
  exec->add_option("ID", options->id)->required();
  exec->add_option("COMMAND", options->command, "Program and arguments")->required();
  exec->add_option("-e,--env", options->env, "NAME=VALUE, may be repeated")
      ->allow_extra_args(false);
  exec->add_option("-w,--cwd", options->cwd, "Directory to start in");
  exec->add_option("-u,--user", options->user, "name, uid, or uid:gid");
  exec->add_flag("-i,--interactive", options->interactive, "Pass our stdin on");
  exec->add_option("--timeout", options->timeout, "Kill all it started after so many seconds");
  exec->positionals_at_end();
  exec->footer(
      "The exit status is the command's; 128 + N when signal N ended it, 124 at the time limit.");
  commands.push_back(
      {exec, [options, &common] {
         return with_client(common, [&](Client& client, int& status) -> net::Task<Result<>> {
           FB_CO_TRY_ASSIGN(json::object body, exec_body(*options));
           if (options->interactive)
             co_return co_await exec_with_stdin(client, options->id, std::move(body), status);
           body["stream"] = true;
           co_return co_await client.lines(
               "POST", microvm_path(options->id, "/exec"), body,
               [&status](json::object line) { return show_line(line, status, pass_on); });
         });
       }});
}

struct CodeOptions {
  std::string id;
  std::string file;
  std::string code;
  std::string language = "python";
  std::string context;
  double timeout = 0;
};

Result<std::string> source_of(const CodeOptions& options) {
  if (!options.code.empty()) return options.code;
  if (options.file.empty() || options.file == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(options.file, std::ios::binary);
  if (!file) return fail(Code::invalid, "cannot read " + options.file);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Results as a terminal can show them.
Result<> show_code_line(const json::object& line, int& status) {
  const std::string type = text_of(line, "type");
  if (type == "result") {
    const std::string kind = text_of(line, "kind");
    const std::string data = text_of(line, "data");
    if (kind == "text" || kind == "markdown" || kind == "json")
      std::cout << data << "\n";
    else
      print_line("[" + kind + ", " + std::to_string(data.size()) + " bytes]");
    std::cout << std::flush;
    return {};
  }
  if (type == "error") {
    status = 1;
    const json::value* trace = line.if_contains("traceback");
    if (trace != nullptr && trace->is_array() && !trace->as_array().empty()) {
      for (const json::value& part : trace->as_array())
        if (part.is_string()) {
          const std::string_view text = part.as_string();
          std::cerr << text << (text.ends_with('\n') ? "" : "\n");
        }
      std::cerr << std::flush;
    } else {
      std::cerr << printable(text_of(line, "name") + ": " + text_of(line, "message")) << "\n";
    }
    return {};
  }
  if (type == "started") {
    if (text_of(line, "state") == "restarted")
      std::cerr << "firebreak: the interpreter was restarted; its variables are gone\n";
    return {};
  }
  if (type == "done") {
    const std::string how = text_of(line, "status");
    if (how != "ok" && how != "error") {
      print_error(how);
      status = how == "timeout" ? kTimeoutStatus : 1;
    }
    return {};
  }
  return show_line(line, status, pass_on);
}

// The context asked for, or the one of that language that is there, or a new one.
net::Task<Result<std::string>> choose_context(Client& client, const CodeOptions& options) {
  if (!options.context.empty()) co_return options.context;
  FB_CO_TRY_ASSIGN(const json::object known,
                   co_await client.call("GET", microvm_path(options.id, "/contexts")));
  if (const json::value* list = known.if_contains("contexts");
      list != nullptr && list->is_array()) {
    for (const json::value& item : list->as_array()) {
      if (item.is_object() && text_of(item.as_object(), "language") == options.language)
        co_return text_of(item.as_object(), "id");
    }
  }
  FB_CO_TRY_ASSIGN(const json::object made,
                   co_await client.call("POST", microvm_path(options.id, "/contexts"),
                                        json::object{{"language", options.language}}));
  co_return text_of(made, "id");
}

// Ctrl-C interrupts our run and no later one of the context; what it still prints arrives. The
// second ends us, as does one before the run has a name: then the server ends the run, because we
// are gone.
net::Task<Result<>> interrupt_on_signal(Client& client, std::string path, const std::string& run,
                                        int& status) {
  net::asio::signal_set signals(client.io(), SIGINT);
  const auto [ec, signal] = co_await signals.async_wait(net::kNoThrow);
  if (ec) co_return Result<>();
  signals.clear();
  status = kSignalStatus + signal;
  if (run.empty()) co_return Result<>();
  FB_CO_TRY(co_await client.call("POST", path + "/interrupt", json::object{{"run", run}}));
  net::Event never(client.io().get_executor());
  (void)co_await never.wait(far_away());
  co_return Result<>();
}

net::Task<Result<>> run_code(Client& client, const CodeOptions& options, int& status) {
  FB_CO_TRY_ASSIGN(const std::string source, source_of(options));
  FB_CO_TRY_ASSIGN(const std::string context, co_await choose_context(client, options));
  const std::string path = microvm_path(options.id, "/contexts/" + percent_encode(context, ""));
  json::object body{{"code", source}, {"stream", true}};
  if (options.timeout > 0) body["timeoutMs"] = static_cast<std::uint64_t>(options.timeout * 1000);
  std::string run;
  int interrupted = 0;
  auto lines = client.lines("POST", path + "/run", body, [&](json::object line) {
    if (text_of(line, "type") == "started") run = text_of(line, "run");
    return show_code_line(line, status);
  });
  auto either = co_await (std::move(lines) || interrupt_on_signal(client, path, run, interrupted));
  if (interrupted != 0) status = interrupted;
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

void add_code(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto options = std::make_shared<CodeOptions>();
  CLI::App* code = app.add_subcommand("code", "Run code in a stateful interpreter of a microVM");
  code->add_option("ID", options->id)->required();
  code->add_option("FILE", options->file, "File with the code; default: stdin");
  code->add_option("-c,--code", options->code, "The code itself");
  code->add_option("-l,--language", options->language, "python, bash or node")
      ->capture_default_str();
  code->add_option("--context", options->context,
                   "Id of a context; default: the first of the language");
  code->add_option("--timeout", options->timeout, "Interrupt after so many seconds");
  code->footer(
      "Variables stay for the next call. The exit status is 1 when the code raised an error. "
      "Ctrl-C "
      "interrupts the code, twice ends the command.");
  commands.push_back({code, [options, &common] {
                        return with_client(common,
                                           [&](Client& client, int& status) -> net::Task<Result<>> {
                                             co_return co_await run_code(client, *options, status);
                                           });
                      }});
}

void add_logs(CLI::App& app, Common& common, std::vector<Command>& commands) {
  struct Options {
    std::string id;
    bool follow = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* logs = app.add_subcommand("logs", "What the application printed");
  logs->add_option("ID", options->id)->required();
  logs->add_flag("-f,--follow", options->follow, "Go on as it prints more");
  commands.push_back(
      {logs, [options, &common] {
         return with_client(common, [&](Client& client, int& status) -> net::Task<Result<>> {
           LogOutput out(STDOUT_FILENO);
           LogOutput err(STDERR_FILENO);
           FB_CO_TRY(co_await follow(
               client, microvm_path(options->id, options->follow ? "/logs?follow=1" : "/logs"),
               status, [&](int fd, std::string_view bytes) {
                 return (fd == STDOUT_FILENO ? out : err).write(bytes);
               }));
           FB_CO_TRY(out.finish());
           co_return err.finish();
         });
       }});
}

}  // namespace

void add_exec_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  add_exec(app, common, commands);
  add_code(app, common, commands);
  add_logs(app, common, commands);
}

}  // namespace firebreak::cli
