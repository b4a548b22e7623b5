// Control groups of machines, on hosts with cgroup v2 and on those where only v1 works. Owned by
// the engine. A group is a set of directories of the host: it stays until destroy(), whatever
// happens to the daemon. Blocks; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace firebreak::machine {

// 0 = not limited.
struct CgroupLimits {
  std::uint64_t memory_max_bytes = 0;   // no swap on top of it
  std::uint32_t cpu_weight = 0;         // 1..10000, as in v2; share under contention
  std::uint32_t cpu_quota_percent = 0;  // ceiling: 100 = one CPU
  std::uint32_t pids_max = 0;
};

struct CgroupUsage {
  std::uint64_t cpu_usec = 0;
  // What it holds: without the cache of files, which the kernel takes back when it needs it.
  std::uint64_t memory_bytes = 0;
  std::uint64_t oom_kills = 0;
};

enum class CgroupVersion { none, v1, v2 };

// What the host offers.
struct CgroupSupport {
  CgroupVersion version = CgroupVersion::none;
  std::string v2_mount;
  std::map<std::string, std::string> v1_mounts;  // controller -> mount point
  std::vector<std::string> controllers;          // those of ours that can be used
  std::vector<std::string> missing;              // those that limits need and the host lacks

  // "cgroup v1: cpu, cpuacct, memory, pids"
  std::string text() const;
};

CgroupSupport probe_cgroups(const std::string& mountinfo = "/proc/self/mountinfo");

// One file to write for a limit.
struct CgroupSetting {
  std::string controller;
  std::string file;
  std::string value;
  bool optional = false;  // a host may lack the file (no swap accounting)
  friend bool operator==(const CgroupSetting&, const CgroupSetting&) = default;
};
std::vector<CgroupSetting> cgroup_settings(CgroupVersion version, const CgroupLimits& limits);

// What a process that is about to be spawned needs to join: v2 by clone3, v1 by writing "0" to each
// file from inside.
struct CgroupJoin {
  UniqueFd v2_directory;
  std::vector<UniqueFd> v1_tasks;
};

class Cgroup {
 public:
  Cgroup(Cgroup&&) noexcept = default;
  Cgroup& operator=(Cgroup&&) noexcept = default;
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;
  ~Cgroup() = default;  // leaves the group in place: machines outlive the daemon

  const std::string& name() const { return name_; }
  Result<CgroupJoin> open_join() const;
  Result<CgroupUsage> usage() const;
  // Replaces the limits that are not 0.
  Result<> apply(const CgroupLimits& limits) const;
  // Host pids of its processes.
  Result<std::vector<pid_t>> processes() const;
  // Kills what is left in it and removes it. A group that is gone already is fine.
  Result<> destroy(Deadline deadline) const;

 private:
  friend class CgroupRoot;
  Cgroup(std::string name, CgroupVersion version) : name_(std::move(name)), version_(version) {}
  Result<> kill_all() const;

  std::string name_;
  CgroupVersion version_;
  std::map<std::string, std::string>
      directories_;  // v1: controller -> directory; v2: "" -> directory
};

// The parent of all groups of one daemon.
class CgroupRoot {
 public:
  explicit CgroupRoot(std::string name = "firebreak")
      : CgroupRoot(std::move(name), probe_cgroups()) {}
  CgroupRoot(std::string name, CgroupSupport support)
      : name_(std::move(name)), support_(std::move(support)) {}

  // Code::conflict when it exists; Code::unavailable when the host cannot keep one of the limits.
  Result<Cgroup> create(const std::string& name, const CgroupLimits& limits) const;
  // Also one that was only half created or half destroyed.
  Result<Cgroup> open(const std::string& name) const;
  Result<std::vector<std::string>> list() const;
  // Removes the parent itself; Code::conflict while it has groups.
  Result<> remove() const;

 private:
  std::vector<std::pair<std::string, std::string>> parents()
      const;  // key of directories_ -> parent directory
  Result<> delegate_v2(const std::vector<CgroupSetting>& settings) const;
  // v1: a new parent would weigh as much as one process of the host, with all its machines.
  Result<> weigh_v1() const;

  std::string name_;
  CgroupSupport support_;
};

}  // namespace firebreak::machine
