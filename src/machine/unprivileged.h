// Runs a program of the host for us without our rights: own uid, no capabilities, limits, and one
// directory of ours that it sees as its own, wherever that lies. It dies with this process. For
// programs that need the host's network and libraries; what is hostile belongs into a jail
// (jail.h). Blocks until the program has started; any thread.
#pragma once

#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

#include "base/result.h"
#include "machine/process.h"

namespace firebreak::machine {

// Where the program finds its directory, which is where it starts. All else of /tmp is its own, and
// gone with it.
inline constexpr const char* kUnprivilegedDir = "/tmp/work";

struct UnprivilegedSpec {
  std::vector<std::string> argv;         // an absolute path first
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::string directory;                 // given to the uid
  uid_t uid = 0;                         // never 0; the gid is the same
  int stdout_fd = -1;
  int stderr_fd = -1;
  rlim_t file_bytes = RLIM_INFINITY;  // of each file it writes
  rlim_t open_files = 1024;
};

Result<JailedProcess> spawn_unprivileged(const UnprivilegedSpec& spec);

}  // namespace firebreak::machine
