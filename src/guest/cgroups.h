// The guest's cgroups: `agent` beside `tenant`, which holds PID 1, the application and a pool of
// cgroups for execs, and is frozen and thawed as a whole. CgroupPool belongs to the data thread,
// the rest is set up once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

// One cgroup directory and the files of it that are read often.
class Cgroup {
 public:
  // Makes the directory if it is missing.
  static Result<std::unique_ptr<Cgroup>> make(int parent, const std::string& name);

  int fd() const { return dir_.get(); }
  // Kills every process in it, wherever it moved its process group to. Nothing may be started in it
  // afterwards: kernels with "fix race between fork and cgroup.kill" kill every later
  // CLONE_INTO_CGROUP child (they compare the kill count of the target with that of the caller's
  // cgroup).
  void kill();
  bool was_killed() const { return killed_; }
  const std::string& name() const { return name_; }
  bool populated() const;
  // Whether the kernel killed for memory in here since the last call.
  bool take_oom();
  Result<std::uint64_t> number(const std::string& file) const;
  Result<std::uint64_t> key(const std::string& file, std::string_view name) const;

 private:
  Cgroup(UniqueFd dir, std::string name) : dir_(std::move(dir)), name_(std::move(name)) {}
  UniqueFd dir_;
  std::string name_;
  bool killed_ = false;
  UniqueFd events_;
  UniqueFd memory_events_;
  std::uint64_t oom_kills_ = 0;
};

// Cgroups for execs, made ahead because making one costs more than everything else of an exec's
// start.
class CgroupPool {
 public:
  static Result<std::unique_ptr<CgroupPool>> make(int parent, std::size_t ready);
  Result<std::unique_ptr<Cgroup>> take();
  // Used again (or removed, if it was killed) once nothing runs in it any more.
  void give(std::unique_ptr<Cgroup> cgroup);

 private:
  explicit CgroupPool(UniqueFd parent) : parent_(std::move(parent)) {}
  Result<std::unique_ptr<Cgroup>> add();
  void collect();
  void reuse(std::unique_ptr<Cgroup> cgroup);

  UniqueFd parent_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<Cgroup>> ready_;
  std::vector<std::unique_ptr<Cgroup>> populated_;
};

// Freezing and thawing the tenant's cgroup.
class Freezer {
 public:
  static Result<Freezer> open(int cgroup);
  // Returns once every process is frozen; thaws again when the deadline passes first.
  Result<> freeze(Deadline deadline);
  Result<> thaw();

 private:
  Freezer(UniqueFd control, UniqueFd events)
      : control_(std::move(control)), events_(std::move(events)) {}
  UniqueFd control_;
  UniqueFd events_;
};

struct CgroupTree {
  std::unique_ptr<Cgroup> tenant;
  std::unique_ptr<Cgroup> init;  // PID 1, when it is not the application
  std::unique_ptr<Cgroup> app;
  std::unique_ptr<Cgroup> rehearsal;  // parent of cgroups that run while the tenant's is frozen
  std::unique_ptr<Cgroup> shadow;     // frozen and thawed in rehearsals, in the tenant's place
  std::unique_ptr<Cgroup> shadow_member;
  UniqueFd tenant_subtree_control;
};
// Below a mounted cgroup2; moves the calling process into `agent` and leaves the tenant less than
// all memory.
Result<CgroupTree> make_cgroup_tree(const std::string& mount);

}  // namespace firebreak::guest
