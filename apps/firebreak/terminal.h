// A terminal in a microVM, shown in ours: keys go there raw, so colours, job control and resizing
// are the guest's. Owned by a command; the client's thread.
#pragma once

#include <string>
#include <vector>

#include "client.h"

namespace firebreak::cli {

struct TerminalRequest {
  std::string id;
  std::vector<std::string> argv;  // a program and its arguments,
  std::string command;            // or a line for the shell; neither: a login shell
  std::vector<std::string> env;   // NAME=VALUE
  std::string cwd;
  std::string user;
  bool input = true;  // our keys go there
};

bool stdin_is_terminal();

// Until the program there has ended; its exit status.
net::Task<Result<>> run_terminal(Client& client, const TerminalRequest& request, int& status);

}  // namespace firebreak::cli
