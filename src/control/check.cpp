#include "control/check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <unistd.h>

#include "base/sys.h"
#include "control/app_log.h"
#include "control/images.h"
#include "egress/networks.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

// The surer of two looks at whose a thing is.
bool surer(std::optional<bool> one, std::optional<bool> other) {
  return one && (!other || (*one && !*other));
}

class Comparison {
 public:
  Comparison(const Expected& expected, const Found& found) : expected_(expected), found_(found) {
    for (const core::Microvm& microvm : expected_.microvms) owners_.insert(microvm.id.str());
    owners_.insert(expected_.other_machines.begin(), expected_.other_machines.end());
    for (const machine::Inventory& inventory : found_.engines) merge(inventory);
    collect_own();
  }

  CheckReport run() {
    report_.microvms = static_cast<int>(expected_.microvms.size());
    microvms();
    cgroups();
    uids_and_processes();
    networks();
    for (const machine::Inventory& inventory : found_.engines) {
      machines(inventory);
      mounts(inventory);
      snapshots(inventory);
      bases(inventory);
      for (const auto& [leftover, what] : inventory.leftovers)
        note(leftover.kind, leftover.name, what, inventory.engine);
    }
    logs();
    return std::move(report_);
  }

 private:
  template <class T>
  struct Seen {
    T value;
    std::string engine;  // that knows most about it
  };

  // Engines may share the parent of their groups, uids and the data directory: each thing once.
  void merge(const machine::Inventory& inventory) {
    looked_.insert(inventory.engine);
    for (const machine::FoundCgroup& group : inventory.cgroups) {
      auto [at, added] = cgroups_.try_emplace(group.name, group, inventory.engine);
      if (!added && surer(group.ours, at->second.value.ours))
        at->second = {group, inventory.engine};
    }
    for (const machine::FoundProcess& process : inventory.processes) {
      auto [at, added] = processes_.try_emplace(process.pid, process, inventory.engine);
      if (!added && surer(process.ours, at->second.value.ours))
        at->second = {process, inventory.engine};
    }
    for (const machine::UidLease& lease : inventory.uids)
      uids_.try_emplace(lease.uid, lease, inventory.engine);
    for (const machine::FoundMachine& machine : inventory.machines)
      machines_[{inventory.engine, machine.id}] = machine;
  }

  void note(std::string kind, std::string name, std::string what, std::string engine = {}) {
    if (!noted_.emplace(kind, name).second) return;
    report_.found.push_back({.kind = std::move(kind),
                             .name = std::move(name),
                             .what = std::move(what),
                             .engine = std::move(engine)});
  }
  void note_unclear(std::string kind, std::string name, std::string what) {
    what += "; it may belong to another server on this host: end it yourself if it does not";
    report_.found.push_back(
        {.kind = std::move(kind), .name = std::move(name), .what = std::move(what), .ours = false});
  }

  // Ids are random: who has a record, a lease, a directory, a network or a log of one here made it.
  void collect_own() {
    own_ = owners_;
    own_.insert(expected_.recorded.begin(), expected_.recorded.end());
    for (const std::string& build : expected_.builds) own_.insert("build-" + build);
    for (const auto& [of, machine] : machines_) own_.insert(machine.id);
    for (const auto& [uid, lease] : uids_) own_.insert(lease.value.owner);
    own_.insert(found_.networks.begin(), found_.networks.end());
    for (const std::string& file : found_.app_logs) own_.insert(AppLog::owner_of(file).str());
  }

  // Between transitions a microVM has exactly what its state needs.
  void microvms() {
    for (const core::Microvm& microvm : expected_.microvms) {
      if (microvm.intent != core::Intent::none || !looked_.contains(microvm.engine)) continue;
      const std::string& id = microvm.id.str();
      const auto at = machines_.find({microvm.engine, id});
      const bool found = at != machines_.end();
      const bool group = cgroups_.contains(id);
      if (microvm.state == MicrovmState::running) {
        if (!found || at->second.suspended || !at->second.process || !group)
          note("microvm", id, "is RUNNING in the store and has no running machine", microvm.engine);
        else
          strays(at->second, microvm.engine);
      }
      if (microvm.state == MicrovmState::suspended) {
        if (!found || !at->second.suspended)
          note("microvm", id, "is SUSPENDED in the store and its saved state is missing",
               microvm.engine);
        else if (at->second.process || group)
          note("microvm", id, "is SUSPENDED in the store and its machine still runs",
               microvm.engine);
        else
          strays(at->second, microvm.engine);
      }
    }
  }

  // Files of a transition that nobody is in.
  void strays(const machine::FoundMachine& machine, const std::string& engine) {
    for (const std::string& name : machine.strays)
      note("file", name, "was left by a transition", engine);
  }

  // Of microVMs they stay as long as the record, of builds too.
  void logs() {
    for (const std::string& file : found_.app_logs) {
      const std::string id = AppLog::owner_of(file).str();
      if (!expected_.recorded.contains(id) && !owners_.contains(id))
        note("log", "logs/" + file, "belongs to no microVM");
    }
    for (const std::string& build : found_.build_logs) {
      if (!expected_.builds.contains(build)) note("log", "builds/" + build, "belongs to no build");
    }
  }

  void mounts(const machine::Inventory& inventory) {
    for (const std::string& mount : inventory.mounts) {
      if (mount.find("/netns/") == std::string::npos)
        note("mount", mount, "is mounted below the data directory and nothing uses it",
             inventory.engine);
    }
  }

  void snapshots(const machine::Inventory& inventory) {
    for (const std::string& name : inventory.snapshots) {
      const core::SnapshotRef snapshot{inventory.engine, name};
      if (!expected_.snapshots.contains(snapshot) && !expected_.coming.contains(snapshot))
        note("snapshot", name, "belongs to no image version", inventory.engine);
    }
    for (const core::SnapshotRef& snapshot : expected_.snapshots) {
      if (snapshot.engine != inventory.engine) continue;
      if (std::ranges::find(inventory.snapshots, snapshot.name) == inventory.snapshots.end())
        note("image", snapshot.name, "has lost its snapshot; build the image again",
             snapshot.engine);
    }
  }

  void bases(const machine::Inventory& inventory) {
    std::map<std::string, std::string> stand_on;  // by path
    for (const auto& [snapshot, path] : inventory.missing_disks) {
      if (!expected_.snapshots.contains({inventory.engine, snapshot})) continue;
      std::string& names = stand_on[path];
      names += (names.empty() ? "" : ", ") + snapshot;
    }
    for (const auto& [path, snapshots] : stand_on)
      note("base", path,
           "is gone, and these snapshots stand on it: " + snapshots +
               "; put it back, or build the images again");
  }

  void machines(const machine::Inventory& inventory) {
    for (const machine::FoundMachine& machine : inventory.machines) {
      if (!owners_.contains(machine.id))
        note("machine", machine.id, "belongs to no microVM", inventory.engine);
    }
  }

  void networks() {
    std::set<std::string> asleep;
    for (const core::Microvm& microvm : expected_.microvms) {
      if (microvm.state == MicrovmState::suspended && microvm.intent == core::Intent::none)
        asleep.insert(microvm.id.str());
    }
    for (const std::string& id : found_.networks) {
      if (!owners_.contains(id)) note("network", id, "belongs to no microVM");
      if (asleep.contains(id)) note("network", id, "belongs to a microVM that is SUSPENDED");
    }
  }

  void cgroups() {
    for (const auto& [name, group] : cgroups_) {
      if (owners_.contains(name)) continue;
      // Its processes know better than its name: a data directory may have been copied.
      if (group.value.ours.value_or(own_.contains(name)))
        note("cgroup", name, "belongs to no microVM", group.engine);
      else
        note_unclear("cgroup", name, "cannot be tied to this data directory");
    }
  }

  void uids_and_processes() {
    for (const auto& [uid, lease] : uids_) {
      const std::string& owner = lease.value.owner;
      if (!owners_.contains(owner))
        note("uid", std::to_string(uid), "is leased to " + (owner.empty() ? "nobody" : owner),
             lease.engine);
    }
    for (const auto& [number, process] : processes_) {
      const std::string pid = std::to_string(number);
      if (!process.value.ours) {
        note_unclear("process", pid,
                     "runs under uid " + std::to_string(process.value.uid) +
                         " and cannot be tied to this data directory");
        continue;
      }
      const auto at = uids_.find(process.value.uid);
      if (at == uids_.end() || !owners_.contains(at->second.value.owner))
        note("process", pid, "runs under a uid that no microVM has", process.engine);
    }
  }

  const Expected& expected_;
  const Found& found_;
  std::set<std::string> looked_;  // engines
  std::map<std::string, Seen<machine::FoundCgroup>> cgroups_;
  std::map<pid_t, Seen<machine::FoundProcess>> processes_;
  std::map<uid_t, Seen<machine::UidLease>> uids_;
  std::map<std::pair<std::string, std::string>, machine::FoundMachine> machines_;  // engine, id
  std::set<std::string> owners_;  // machines that should be there
  std::set<std::string> own_;     // and those that this data directory has had
  std::set<std::pair<std::string, std::string>> noted_;  // kind, name
  CheckReport report_;
};

}  // namespace

CheckReport compare(const Expected& expected, const Found& found) {
  return Comparison(expected, found).run();
}

namespace {

Result<> expect_images(const store::Store& store, Expected& expected) {
  FB_TRY_ASSIGN(const auto versions, store.all_versions());
  for (const core::ImageVersion& version : versions) {
    if (!version.snapshot.empty()) expected.snapshots.insert(core::snapshot_of(version));
    if (version.state == core::VersionState::in_progress)
      expected.coming.insert(
          {version.engine, version.image.str() + "-" + std::to_string(version.number)});
    FB_TRY_ASSIGN(const auto builds, store.list_builds(version.image, version.number));
    for (const core::Build& build : builds) expected.builds.insert(build.id.str());
  }
  return {};
}

// The host first: what was there then and belongs to somebody is known to the memory or to the
// store now, because records are written before machines are made.
net::Task<Result<CheckReport>> look_once(const CheckContext& context) {
  FB_CO_TRY_ASSIGN(const Found found, context.look());
  Expected expected;
  if (context.other_machines) expected.other_machines = context.other_machines();
  FB_CO_TRY_ASSIGN(expected.microvms, co_await context.db.run([](const store::Store& store) {
    return store.live_microvms();
  }));
  FB_CO_TRY(co_await context.db.run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto ids, store.microvm_ids());
    for (const core::MicrovmId& id : ids) expected.recorded.insert(id.str());
    return expect_images(store, expected);
  }));
  co_return compare(expected, found);
}

const Discrepancy* find(const CheckReport& report, const Discrepancy& leak) {
  const auto at = std::ranges::find_if(report.found, [&leak](const Discrepancy& other) {
    return other.kind == leak.kind && other.name == leak.name;
  });
  return at == report.found.end() ? nullptr : &*at;
}

}  // namespace

net::Task<Result<CheckReport>> check_host(CheckContext context, bool repair) {
  FB_CO_TRY_ASSIGN(const CheckReport before, co_await look_once(context));
  if (before.found.empty()) co_return before;
  FB_CO_TRY_ASSIGN(CheckReport report, co_await look_once(context));
  std::erase_if(report.found,
                [&before](const Discrepancy& leak) { return find(before, leak) == nullptr; });
  if (!repair) co_return report;
  for (Discrepancy& leak : report.found) {
    if (!leak.ours) continue;
    FB_CO_TRY_ASSIGN(const CheckReport now, co_await look_once(context));
    const Discrepancy* still = find(now, leak);
    // Repairing another one may have been enough.
    leak.repaired = still == nullptr || (still->ours && co_await context.put_right(leak));
  }
  co_return report;
}

// --------------------------------------------------------------------------------- the real host

namespace {

class Repair {
 public:
  Repair(store::Database& db, const machine::Engines& engines, std::string data_dir,
         std::optional<RunningServer> server)
      : db_(db), engines_(engines), data_dir_(std::move(data_dir)), server_(std::move(server)) {}

  net::Task<bool> put_right(Discrepancy leak) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(30));
    if (leak.kind == "image") co_return co_await fail_image({leak.engine, leak.name});
    if (leak.kind == "microvm") co_return co_await settle(leak, deadline);
    if (leak.kind == "network") co_return egress::remove_network(data_dir_, leak.name).has_value();
    if (leak.kind == "log") co_return ::unlink((data_dir_ + "/" + leak.name).c_str()) == 0;
    if (leak.engine.empty()) co_return false;
    const auto engine = engines_.get(leak.engine);
    if (!engine) co_return false;
    machine::Leftover leftover{.kind = leak.kind, .name = leak.name};
    co_return (co_await (*engine)->repair(std::move(leftover), deadline)).has_value();
  }

 private:
  net::Task<bool> fail_image(core::SnapshotRef snapshot) {
    if (server_) co_return co_await server_->lost(std::move(snapshot));
    const core::Time now = core::SystemClock().now();
    const auto failed = co_await db_.run(
        [&](store::Store& store) { return fail_versions_of(store, snapshot.name, now); });
    co_return failed.has_value();
  }

  net::Task<bool> settle(Discrepancy leak, Deadline deadline) {
    if (server_) co_return co_await server_->settle(leak.name);
    // Attaching ends what runs beside a saved state; all else the next server settles when it
    // starts.
    const auto engine = engines_.get(leak.engine);
    if (!engine) co_return false;
    const auto found = (*engine)->list();
    if (!found) co_return false;
    const auto at = std::ranges::find(*found, leak.name, &machine::FoundMachine::id);
    if (at == found->end() || !at->suspended || !at->process) co_return false;
    (void)co_await (*engine)->attach(leak.name, deadline);
    co_return true;
  }

  store::Database& db_;
  const machine::Engines& engines_;
  std::string data_dir_;
  std::optional<RunningServer> server_;
};

}  // namespace

CheckContext host_context(store::Database& db, const machine::Engines& engines,
                          std::string data_dir, std::optional<RunningServer> server) {
  auto repair = std::make_shared<Repair>(db, engines, data_dir, server);
  CheckContext context{.db = db, .look = {}, .other_machines = {}, .put_right = {}};
  context.look = [&engines, data_dir = std::move(data_dir)]() -> Result<Found> {
    Found found;
    for (const machine::Engine* engine : engines.all()) {
      FB_TRY_ASSIGN(machine::Inventory inventory, engine->inventory());
      found.engines.push_back(std::move(inventory));
    }
    FB_TRY_ASSIGN(found.networks, egress::found_networks(data_dir));
    found.app_logs = sys::list_dir(data_dir + "/logs").value_or(std::vector<std::string>());
    found.build_logs = sys::list_dir(data_dir + "/builds").value_or(std::vector<std::string>());
    return found;
  };
  context.other_machines = [&engines, server = std::move(server)] {
    std::set<std::string> ids = server ? server->machines() : std::set<std::string>();
    for (const machine::Engine* engine : engines.all()) ids.merge(engine->own_machines());
    return ids;
  };
  context.put_right = [repair](const Discrepancy& leak) { return repair->put_right(leak); };
  return context;
}

json::object to_json(const CheckReport& report) {
  json::array leaks;
  json::array unclear;
  bool ok = true;
  for (const Discrepancy& one : report.found) {
    ok = ok && (one.repaired || !one.ours);
    (one.ours ? leaks : unclear)
        .push_back(json::object{{"kind", one.kind},
                                {"name", one.name},
                                {"what", one.what},
                                {"repaired", one.repaired}});
  }
  return {{"ok", ok},
          {"microvms", report.microvms},
          {"leaks", std::move(leaks)},
          {"unclear", std::move(unclear)}};
}

}  // namespace firebreak::control
