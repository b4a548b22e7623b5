#include "bench/commands.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace firebreak::bench {

Result<double> time_command(const std::vector<std::string>& argv) {
  std::vector<char*> raw;
  std::vector<std::string> copy = argv;
  for (std::string& arg : copy) raw.push_back(arg.data());
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const Timer timer;
  pid_t pid = 0;
  const int err = ::posix_spawnp(&pid, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (err != 0) return fail_errno("starting " + argv[0], err);
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return fail_errno("waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::internal, argv[0] + " failed with status " + std::to_string(status));
  return timer.ms();
}

Result<Samples> time_commands(const std::vector<std::string>& argv, int count) {
  Samples samples;
  FB_TRY(time_command(argv));  // the first one reads files from disk
  for (int i = 0; i < count; ++i) {
    FB_TRY_ASSIGN(const double ms, time_command(argv));
    samples.add(ms);
  }
  return samples;
}

}  // namespace firebreak::bench
