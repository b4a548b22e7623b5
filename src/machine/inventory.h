// Everything on the host that belongs to an engine, found by looking, not by remembering: what a
// leak check compares with what should exist. Every engine tells it in these words. Values; any
// thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "machine/uid_pool.h"

namespace firebreak::machine {

// A machine found on the host, whoever made it.
struct FoundMachine {
  std::string id;
  bool suspended = false;  // its saved state is whole
  bool parked = false;
  bool process = false;             // it runs
  std::vector<std::string> strays;  // files of a transition, as Leftover names them; while nobody
                                    // is in one they are in the way
};

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

// A disk that a snapshot stands on, outside it, is not there.
struct MissingDisk {
  std::string snapshot;  // name of its directory
  std::string path;
};

// Something that is to be removed.
struct Leftover {
  std::string kind;  // "machine", "cgroup", "uid", "process", "mount", "snapshot", "file", or a
                     // word of the engine's own
  std::string name;
  friend bool operator==(const Leftover&, const Leftover&) = default;
};

// Of a kind that only the engine has, and judged by it.
struct OwnLeftover {
  Leftover leftover;
  std::string what;  // for people: why nobody needs it
};

struct Inventory {
  std::string engine;
  std::vector<FoundMachine> machines;
  std::vector<FoundCgroup> cgroups;
  std::vector<UidLease> uids;
  std::vector<FoundProcess> processes;  // that run under a uid of the range
  std::vector<std::string> mounts;      // below the data directory, in our mount namespace
  std::vector<std::string> snapshots;   // names
  std::vector<MissingDisk> missing_disks;
  std::vector<OwnLeftover> leftovers;
};

// True when two paths lead to the same directory or file.
bool is_same_file(const std::string& one, const std::string& other);

// Tells the processes of one data directory's machines from those of another server: a machine's
// record names the process, or its root is a runtime that this directory keeps. Nobody leaves a
// jail for another root.
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
