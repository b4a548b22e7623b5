// Does the host hold exactly what the store says? Compares what every engine finds of its own, and
// networks and logs, with the records, names every difference, and can put it right: what is
// provably of this data directory, and nothing of another server's. Things of an engine that this
// program does not have are not looked at. Blocking parts run on the caller's thread; used by the
// running server and by `firebreak check` alone.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/model.h"
#include "machine/engines.h"
#include "machine/inventory.h"
#include "store/database.h"

namespace firebreak::control {

struct Discrepancy {
  std::string kind;  // "machine", "process", "cgroup", "uid", "mount", "network", "snapshot",
                     // "file", "log", "microvm", "image", "base", or an engine's own
  std::string name;
  std::string what;  // for people
  bool repaired = false;
  bool ours = true;         // false: it may be another server's, and is left alone
  std::string engine = {};  // whose it is; empty: no engine's
};

struct CheckReport {
  std::vector<Discrepancy> found;
  int microvms = 0;  // that were compared
};

struct Expected {
  std::vector<core::Microvm> microvms;    // not TERMINATED
  std::set<std::string> other_machines;   // parked clones and builds of a running server
  std::set<core::SnapshotRef> snapshots;  // of image versions
  std::set<core::SnapshotRef> coming;     // that a build may write at any moment
  std::set<std::string> builds;           // of image versions
  std::set<std::string> recorded;         // microVMs, also TERMINATED ones
};

struct Found {
  std::vector<machine::Inventory> engines;
  std::vector<std::string> networks;    // of machines with these ids
  std::vector<std::string> app_logs;    // files of microVMs
  std::vector<std::string> build_logs;  // files of builds
};

// Pure comparison.
CheckReport compare(const Expected& expected, const Found& found);

// The host as the check sees it. `look` blocks.
struct CheckContext {
  store::Database& db;
  std::function<Result<Found>()> look;
  std::function<std::set<std::string>()> other_machines;  // of a running server; may be empty
  std::function<net::Task<bool>(const Discrepancy&)> put_right;  // true: it is done
};

// Looks at the host and the store, and compares. What is found must be found twice: meanwhile
// microVMs start and end. With `repair` each difference is looked at once more, then put right.
net::Task<Result<CheckReport>> check_host(CheckContext context, bool repair);

// What a running server knows beyond the store.
struct RunningServer {
  std::function<std::set<std::string>()> machines;  // parked clones and builds
  // A microVM whose machine is not what its state says; nobody else may be at it meanwhile.
  std::function<net::Task<bool>(std::string id)> settle;
  // An image's snapshot is gone: its versions become FAILED.
  std::function<net::Task<bool>(core::SnapshotRef snapshot)> lost;
};
// The real host. No server: nobody else may be at its microVMs.
CheckContext host_context(store::Database& db, const machine::Engines& engines,
                          std::string data_dir, std::optional<RunningServer> server);

// {ok, microvms, leaks: [{kind, name, what, repaired}], unclear: [the same]}. What may be another
// server's is unclear, and does not make it wrong.
json::object to_json(const CheckReport& report);

}  // namespace firebreak::control
