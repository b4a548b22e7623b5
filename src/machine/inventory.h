// Everything on the host that belongs to an engine, found by looking, not by remembering: what a
// leak check compares with what should exist. Values; any thread.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "machine/engine.h"
#include "machine/uid_pool.h"

namespace firebreak::machine {

struct FoundProcess {
  pid_t pid = 0;
  uid_t uid = 0;
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
  std::vector<std::string> cgroups;    // named as their machines
  std::vector<UidLease> uids;
  std::vector<FoundProcess> processes;  // that run under a uid of the range
  std::vector<std::string> mounts;      // below the data directory, in our mount namespace
  std::vector<std::string> snapshots;   // directories
  std::vector<MissingDisk> missing_disks;
  std::vector<FoundHolder> holders;      // of snapshots below the data directory
  std::vector<std::string> old_kernels;  // prepared ones of other agents than builds use now
};

// Processes whose real uid is in the range; zombies run nothing and do not count.
std::vector<FoundProcess> processes_of(const UidRange& range);
// Mount points below a directory.
std::vector<std::string> mounts_below(const std::string& directory);

}  // namespace firebreak::machine
