// Starting a process in the tenant with as few system calls as possible: one clone3 that shares
// memory with the suspended caller (so errors come back through memory), then only raw system
// calls. One Spawner, owned by the data thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

struct TenantPlan;

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  std::string cwd = "/";
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  int in = -1;                // descriptors above 2 that become 0, 1, 2
  int out = -1;
  int err = -1;
  bool terminal = false;  // `in` becomes the controlling terminal
  int program = -1;       // executes this descriptor instead of looking argv[0] up
};

// Where a command starts; -1 means "as the agent".
struct SpawnPlace {
  int cgroup = -1;            // directory descriptor
  int cgroup_namespace = -1;  // joined by the child: the caller must see cgroups outside of it
};

struct Process {
  pid_t pid = 0;         // as the agent sees it
  pid_t tenant_pid = 0;  // as the tenant sees it
  UniqueFd pidfd;
};

class Spawner {
 public:
  static Result<std::unique_ptr<Spawner>> create();
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  Result<Process> start(const Command& command, const SpawnPlace& place);
  // PID 1 of the tenant, in namespaces of its own (tenant_setup.h).
  Result<Process> start_tenant(const Command& command, const SpawnPlace& place,
                               const TenantPlan& plan);

  // A tenant may make a child hang before its exec (a file system that does not answer), and with
  // it this thread. Kills the child if it has been at it since the last call of this function. Any
  // thread.
  void kill_stuck_child();

 private:
  Spawner() = default;
  Result<Process> run(const Command& command, const SpawnPlace& place, const TenantPlan* plan);

  void* stack_ = nullptr;
  std::atomic<std::uint64_t> started_{0};
  std::atomic<bool> killed_{false};
  int child_pidfd_ = -1;  // written by the kernel before the caller is suspended
  std::mutex mutex_;      // keeps child_pidfd_ from being closed under kill_stuck_child()
  std::uint64_t finished_ = 0;
  std::uint64_t suspect_ = 0;
};

// The program files to try for argv[0], in order, as execvp would.
std::vector<std::string> program_candidates(const std::string& program,
                                            std::span<const std::string> env);

// Capabilities a tenant's processes may have by default: those of an ordinary container. Drops all
// others from the bounding set of the calling thread; what it starts later cannot have them.
// Async-signal-safe; 0 or an errno.
int drop_bounding_set();

}  // namespace firebreak::guest
