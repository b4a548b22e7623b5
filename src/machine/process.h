// Processes named so that a recycled pid is never mistaken for them. Owned by whoever runs a
// machine; outlives the daemon. Values and one move-only handle; calls block, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace firebreak::machine {

// What a journal keeps about a process. Pid and start time are unique within one boot of the host.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot, field 22 of /proc/PID/stat
  std::string boot_id{};         // of the host's boot; empty: noted before this was kept
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// Of this boot of the host.
std::string current_boot_id();

// A zombie can still be identified.
Result<ProcessId> identify(pid_t pid);
// False for a zombie: it runs nothing any more.
bool is_alive(const ProcessId& id);

// How a process ended. Both are empty when it was not our child: only a parent is told.
struct ProcessExit {
  std::optional<int> code;
  std::optional<int> signal;
};

// A handle on a jailed process. Destroying the handle leaves the process running, because machines
// outlive the daemon; only kill() ends it.
class JailedProcess {
 public:
  JailedProcess(ProcessId id, UniqueFd pidfd) : id_(std::move(id)), pidfd_(std::move(pidfd)) {}
  JailedProcess(JailedProcess&&) noexcept = default;
  JailedProcess& operator=(JailedProcess&&) noexcept = default;
  JailedProcess(const JailedProcess&) = delete;
  JailedProcess& operator=(const JailedProcess&) = delete;
  ~JailedProcess() = default;

  const ProcessId& id() const { return id_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_.get(); }
  bool running() const;

  // SIGKILL; a process that has ended already is fine.
  Result<> kill() const;
  // Reaps the process if it is our child. Code::timeout when it still runs at the deadline.
  Result<ProcessExit> wait(Deadline deadline) const;
  Result<ProcessExit> kill_and_wait(Deadline deadline) const;

 private:
  ProcessId id_;
  UniqueFd pidfd_;
};

// A handle on a process that an earlier daemon started. Code::not_found when it has ended or its
// pid was recycled.
Result<JailedProcess> adopt(const ProcessId& id);

}  // namespace firebreak::machine
