// Everything on the host that belongs to an engine, found by looking, not by remembering: what a
// leak check compares with what should exist. Values; any thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "machine/engine.h"
#include "machine/uid_pool.h"

namespace firebreak::machine {

struct FoundProcess {
  pid_t pid = 0;
  uid_t uid = 0;
  bool ours = false;  // proven; another server may use the same uids
};

// Servers may share the parent of their groups.
struct FoundCgroup {
  std::string name;            // as its machine's
  std::optional<bool> ours{};  // told by its processes; nothing when it has none
};

// A process that keeps a snapshot's memory.
struct FoundHolder {
  pid_t pid = 0;
  std::string directory;  // of the snapshot
  bool noted = false;     // the snapshot names it
};

// A disk that a snapshot stands on, outside it, is not there.
struct MissingDisk {
  std::string snapshot;  // name of its directory
  std::string path;
};

struct Inventory {
  std::vector<FoundMachine> machines;  // directories
  std::vector<FoundCgroup> cgroups;
  std::vector<UidLease> uids;
  std::vector<FoundProcess> processes;  // that run under a uid of the range
  std::vector<std::string> mounts;      // below the data directory, in our mount namespace
  std::vector<std::string> snapshots;   // directories
  std::vector<MissingDisk> missing_disks;
  std::vector<FoundHolder> holders;      // of snapshots below the data directory
  std::vector<std::string> old_kernels;  // prepared ones of other agents than builds use now
};

// True when two paths lead to the same directory or file.
bool is_same_file(const std::string& one, const std::string& other);

// Tells the processes of one data directory's machines from those of another server: a machine's
// record names the process, or its root is a QEMU that this directory keeps. Nobody leaves a jail
// for another root.
class OwnProcesses {
 public:
  OwnProcesses(const std::string& data_dir, std::set<pid_t> recorded);
  bool contains(pid_t pid) const;

 private:
  std::set<std::pair<dev_t, ino_t>> roots_;
  std::set<pid_t> recorded_;
};

// Processes whose real uid is in the range; zombies run nothing and do not count. Whose they are is
// not looked at.
std::vector<FoundProcess> processes_of(const UidRange& range);
// Mount points below a directory.
std::vector<std::string> mounts_below(const std::string& directory);

}  // namespace firebreak::machine
