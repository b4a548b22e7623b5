#include "machine/tool.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/sys.h"

namespace firebreak::machine {

Result<std::string> run_tool(const std::vector<std::string>& command, Deadline deadline) {
  FB_TRY_ASSIGN(auto pipe, sys::pipe());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.second.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  char locale[] = "LC_ALL=C";
  char* environment[] = {locale, nullptr};
  pid_t pid = 0;
  const int spawned = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environment);
  ::posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return fail_errno("run " + command[0], spawned);
  pipe.second.reset();

  std::string output;
  bool ended = false;
  while (!ended && !deadline.passed()) {
    pollfd ready{.fd = pipe.first.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(deadline.left().count())) <= 0) continue;
    char buffer[8192];
    const ssize_t n = ::read(pipe.first.get(), buffer, sizeof buffer);
    if (n > 0) output.append(buffer, static_cast<std::size_t>(n));
    ended = n == 0;
  }
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return fail(Code::timeout, command[0] + " has not ended in time");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::unavailable, command[0] + " failed", output);
  return output;
}

}  // namespace firebreak::machine
