// Spawns a program so that it reaches nothing of the host but the descriptors it is given: own
// namespaces, a read-only root, own uid, no capabilities, a cgroup. Values; spawn_jailed blocks
// until the program has started, any thread.
#pragma once

#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

#include "base/result.h"
#include "machine/cgroup.h"
#include "machine/process.h"

namespace firebreak::machine {

// The program finds our `fd` under the number `as` (3 or above, distinct).
struct PassedFd {
  int fd = -1;
  int as = -1;
};

// Lowered only: raising a limit needs a capability that the host may lack.
struct JailRlimits {
  rlim_t open_files = 1024;
  rlim_t threads = 256;
};

struct JailSpec {
  std::string runtime_root;        // becomes /; must hold the empty directories proc and dev
  std::vector<std::string> argv;   // the program's path as seen inside first
  std::vector<PassedFd> pass_fds;  // everything else is closed
  std::vector<std::string> environment{};  // "NAME=value"; nothing of ours is inherited
  uid_t uid = 0;                           // never 0
  gid_t gid = 0;                           // never 0
  const Cgroup& cgroup;
  int stderr_fd = -1;  // receives standard output and standard error
  int netns_fd = -1;   // joined in place of a new, empty network namespace
  bool kvm = false;    // gives it a private /dev that holds kvm and nothing else
  JailRlimits limits = {};
};

// The program is PID 1 of its own pid namespace (SIGTERM from inside has no effect, SIGKILL from
// here has) and is not bound to the life of this process. A step that fails is named in the error,
// and nothing of the jail is left.
Result<JailedProcess> spawn_jailed(const JailSpec& spec);

}  // namespace firebreak::machine
