// What a build puts into the tenant beside its disk: trees in memory ("stagings"), of which parts
// are mounted in the tenant for one step and taken away after it. Nothing of them ever reaches the
// disk but empty mount points that vanish with the mounts. Blocking functions; each says whose
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace firebreak::guest {

struct StagedMount {
  std::string staging;
  std::string path = ".";  // inside it: a directory, or a file
  std::string target;      // absolute, in the tenant
  bool readonly = false;
};
Result<std::vector<StagedMount>> parse_mounts(const json::object& body);

// ---- on a worker, in the agent's own mount namespace

// Fine if it is there. `bytes` 0: as much as half of the memory.
Result<> create_staging(const std::string& name, std::uint64_t bytes);
Result<> remove_staging(const std::string& name);
Result<UniqueFd> open_staging(const std::string& name);
// A mount that is nowhere yet.
Result<UniqueFd> detach_part(const StagedMount& mount);

// ---- on the data thread, inside the tenant's namespaces

// The mounts of one step, newest last. Owned by the BuildService; data thread.
class StepMounts {
 public:
  // `tree` as of detach_part. Makes the mount point if there is none.
  Result<> add(int root, const StagedMount& mount, UniqueFd tree);
  // Unmounts all and removes the mount points that were made.
  Result<> clear(int root);

 private:
  struct Mounted {
    std::string target;
    std::vector<std::string> made;  // outermost first
    bool directory = false;
  };
  std::vector<Mounted> mounted_;
};

}  // namespace firebreak::guest
