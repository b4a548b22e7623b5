// A command in a microVM, its output here as it comes, its input from ours: what exec, run and
// shell share. Owned by a command; the client's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client.h"

namespace firebreak::cli {

struct ExecRequest {
  std::string id;
  std::vector<std::string> command;
  std::vector<std::string> env;  // NAME=VALUE
  std::string cwd;
  std::string user;
  bool interactive = false;       // our stdin is its stdin
  bool terminal = false;          // it has a terminal
  std::optional<double> timeout;  // seconds
};

// Until the command has ended; its exit status, 128 + N when signal N ended it, 124 at the time
// limit, 127 and 126 for a program that is not there or cannot be run.
net::Task<Result<>> run_exec(Client& client, const ExecRequest& request, int& status);

// Where the bytes of a guest's program go: the descriptor, and they.
using Write = std::function<Result<>(int fd, std::string_view bytes)>;
// As they are: what an exec or code prints is the user's own session.
Result<> pass_on(int fd, std::string_view bytes);

// One line of an output stream: prints what it holds, sets the status at the end of a command.
Result<> show_line(const json::object& line, int& status, const Write& write = pass_on);

// Runs the task; SIGINT, SIGTERM or SIGHUP end it early, with 128 + N as the status.
net::Task<Result<>> unless_signalled(Client& client, net::Task<Result<>> task, int& status);

}  // namespace firebreak::cli
