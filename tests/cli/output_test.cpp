// What every command prints when names, reasons, logs and errors were chosen by somebody hostile:
// the real program against a server that answers with nothing else.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/printable.h"
#include "base/sys.h"
#include "net/http_server.h"
#include "support/environment.h"

namespace firebreak {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::environment_or_die;

constexpr std::string_view kHostile =
    "x\nFORGED row\r\x1b]0;title\x07\x1b[2J\xC2\x9B"
    "31m\x7f\xE2\x80\xAE\xE2\x80\xA8";
constexpr std::string_view kLog = "line\n\x1b[31mred\x1b[0m\r\nlast \x9b";

// An object that has every member any command prints.
json::object everything() {
  json::object one;
  for (const char* name :
       {"id",        "image",       "imageVersion", "state",   "stateReason", "name",
        "version",   "digest",      "text",         "microvm", "day",         "microvms",
        "accountId", "accessKeyId", "admin",        "arn",     "kind",        "ports",
        "what",      "repaired",    "event",        "verdict", "protocol",    "address",
        "port",      "rule",        "reason",       "token",   "ok",          "runningSeconds",
        "layers",    "exec"})
    one[name] = kHostile;
  one["aliases"] = json::array{kHostile};
  json::object all = one;
  for (const char* list : {"items", "days", "leaks", "decisions", "steps"})
    all[list] = json::array{one};
  for (const char* object : {"total", "limits", "suggestion"}) all[object] = one;
  return all;
}

net::Task<void> answer(net::HttpExchange& exchange) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  (void)co_await exchange.read_all(1 << 20, deadline);
  const std::string& target = exchange.request().target;
  std::string body = json::serialize(everything());
  int status = 200;
  if (target.contains("/versions/") && target.contains("/log")) body = kLog;
  if (target.contains("/logs"))
    body = R"({"type":"stdout","dataBase64":")"
           "bGluZQobWzMxbXJlZBtbMG0NCmxhc3Qgmw=="
           "\"}\n";
  if (target.contains("/v1/events")) body = "event: x\ndata: " + body + "\n\n";
  if (exchange.request().method == "DELETE") {
    status = 409;
    body = json::serialize(json::object{{"code", "conflict"}, {"message", kHostile}});
  }
  (void)co_await exchange.reply(status, {}, body, deadline);
}

struct Printed {
  std::string out;
  std::string err;
};

std::string read_all(int fd) {
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

class CliOutput : public testing::Test {
 protected:
  CliOutput() {
    auto server = net::HttpServer::listen(io_.get_executor(), "127.0.0.1:0", {}, answer);
    EXPECT_TRUE(server) << server.error().text();
    server_ = *std::move(server);
    ::setenv("FIREBREAK_URL", ("http://" + server_->address()).c_str(), 1);
    ::setenv("FIREBREAK_API_KEY", "key", 1);
    context_ = std::filesystem::temp_directory_path() / ("fb-output-" + sys::random_hex(6));
    std::filesystem::create_directories(context_);
    std::ofstream(context_ + "/Dockerfile") << "FROM scratch\n";
    loop_ = std::thread([this] { io_.run(); });
  }
  ~CliOutput() override {
    net::asio::post(io_, [this] { server_.reset(); });
    work_.reset();
    io_.stop();
    loop_.join();
    std::filesystem::remove_all(context_);
  }

  static std::vector<char*> argv_of(std::vector<std::string>& words) {
    words.insert(words.begin(), environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return argv;
  }
  // Into pipes.
  static Printed run(std::vector<std::string> words) {
    auto out = sys::pipe();
    auto err = sys::pipe();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out->second.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err->second.get(), STDERR_FILENO);
    const std::vector<char*> argv = argv_of(words);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    out->second.reset();
    err->second.reset();
    Printed printed{.out = read_all(out->first.get()), .err = read_all(err->first.get())};
    ::waitpid(pid, nullptr, 0);
    return printed;
  }
  // On a terminal, which gets both.
  static std::string run_on_terminal(std::vector<std::string> words) {
    const std::vector<char*> argv = argv_of(words);
    int fd = -1;
    const pid_t pid = ::forkpty(&fd, nullptr, nullptr, nullptr);
    if (pid == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    std::string out = read_all(fd);
    ::close(fd);
    ::waitpid(pid, nullptr, 0);
    // What the terminal's driver made of our line ends.
    for (std::size_t at = 0; (at = out.find("\r\n", at)) != std::string::npos;) out.erase(at, 1);
    return out;
  }
  static void expect_harmless(const std::string& text, const std::string& command) {
    PrintableStream stream;
    EXPECT_EQ(stream.next(text) + stream.finish(), text) << command;
    EXPECT_THAT(text, Not(HasSubstr("\r"))) << command;
    EXPECT_THAT("\n" + text, Not(HasSubstr("\nFORGED"))) << command;
  }

  net::asio::io_context io_;
  net::asio::executor_work_guard<net::asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<net::HttpServer> server_;
  std::string context_;
  std::thread loop_;
};

TEST_F(CliOutput, NoAnswerForgesALineOrSteersTheTerminal) {
  const std::vector<std::pair<std::vector<std::string>, int>> commands{
      {{"run", "image"}, 1},
      {{"ps"}, 2},
      {{"ps", "--json"}, 1},
      {{"show", "x"}, 1},
      {{"suspend", "x"}, 1},
      {{"resume", "x", "y"}, 2},
      {{"fork", "x"}, 1},
      {{"kill", "x"}, 1},
      {{"token", "x", "--port", "80"}, 1},
      {{"token", "x", "--list"}, 2},
      {{"image", "ls"}, 2},
      {{"image", "bases"}, 2},
      {{"image", "cache"}, 3},
      {{"image", "show", "x"}, 1},
      {{"image", "history", "x"}, 2},
      {{"image", "rm", "x"}, 1},
      {{"egress", "ls"}, 2},
      {{"egress", "x"}, 2},
      {{"egress", "x", "--suggest"}, 1},
      {{"role", "ls"}, 2},
      {{"check"}, 2},
      {{"usage"}, 4},
      {{"events"}, 1},
      {{"tenant", "ls"}, 2},
      {{"key", "ls"}, 2},
      {{"key", "rm", "x"}, 1},
      {{"quota", "show"}, 1},
  };
  for (const auto& [words, lines] : commands) {
    const Printed printed = run(words);
    const std::string text = printed.out + printed.err;
    const std::string command = testing::PrintToString(words);
    expect_harmless(text, command);
    EXPECT_EQ(std::ranges::count(text, '\n'), lines) << command << "\n" << text;
    EXPECT_EQ(run_on_terminal(words), text) << command;
  }
}

TEST_F(CliOutput, LogsArePrintableOnATerminalAndAsTheyAreElsewhere) {
  const std::string shown = "line\n\\x1b[31mred\\x1b[0m\nlast \\x9b";
  for (const auto& words : {std::vector<std::string>{"logs", "x"}, {"image", "logs", "x"}}) {
    EXPECT_EQ(run(words).out, kLog) << words[0];
    EXPECT_EQ(run_on_terminal(words), shown) << words[0];
  }
  const std::vector<std::string> build{"image", "build", "x", context_};
  EXPECT_EQ(run(build).err, kLog);
  EXPECT_EQ(run_on_terminal(build), shown);
}

TEST_F(CliOutput, WhatAGuestSaysInAnErrorIsOneLine) {
  const Printed printed = run({"image", "cancel", "x\n\x1b[2J"});
  expect_harmless(printed.out + printed.err, "cancel");
  const std::string text = run({"kill", "x\ny"}).err;
  EXPECT_THAT(text, testing::StartsWith("firebreak: x\\ny: x\\nFORGED row\\r\\x1b]0;title"));
}

}  // namespace
}  // namespace firebreak
