// Does the host hold exactly what the store says? Compares machines, processes, cgroups, uids,
// mounts, networks and snapshots with the records, names every difference, and can put it right.
// Blocking parts run on the caller's thread; used by the running server and by `firebreak check`
// alone.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/model.h"
#include "machine/inventory.h"
#include "machine/qemu/qemu_engine.h"
#include "store/database.h"

namespace firebreak::control {

struct Discrepancy {
  std::string
      kind;  // "machine", "process", "cgroup", "uid", "mount", "network", "snapshot", "microvm"
  std::string name;
  std::string what;  // for people
  bool repaired = false;
};

struct CheckReport {
  std::vector<Discrepancy> found;
  int microvms = 0;  // that were compared
};

struct Expected {
  std::vector<core::Microvm> microvms;   // not TERMINATED
  std::set<std::string> other_machines;  // parked clones and builds of a running server
  std::set<std::string> snapshots;       // of image versions
};

struct Found {
  machine::Inventory machines;
  std::vector<std::string> networks;  // of machines with these ids
};

// Pure comparison.
CheckReport compare(const Expected& expected, const Found& found);

// Looks at the store and the host, and compares. With `repair` what belongs to nobody is removed.
struct CheckContext {
  store::Database& db;
  machine::QemuEngine& engine;
  std::string data_dir;
  std::function<std::set<std::string>()> other_machines;  // of a running server
};
net::Task<Result<CheckReport>> check_host(CheckContext context, bool repair);

// {ok, microvms, leaks: [{kind, name, what, repaired}]}
json::object to_json(const CheckReport& report);

}  // namespace firebreak::control
