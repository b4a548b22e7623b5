#include "control/check.h"

#include <algorithm>
#include <map>
#include <memory>

#include <sys/mount.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "control/app_log.h"
#include "control/images.h"
#include "egress/networks.h"
#include "machine/process.h"
#include "machine/qemu/base_holder.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

// What a machine's directory does not have while it runs, and while it is suspended.
constexpr std::string_view kStrangeAwake = " saved.new forked forked.new resuming ";
constexpr std::string_view kStrangeAsleep =
    " saved.new forked forked.new resuming qmp.sock ctl.sock data.sock ";

class Comparison {
 public:
  Comparison(const Expected& expected, const Found& found)
      : expected_(expected), found_(found.machines), files_(found), networks_(found.networks) {
    for (const core::Microvm& microvm : expected_.microvms) owners_.insert(microvm.id.str());
    owners_.insert(expected_.other_machines.begin(), expected_.other_machines.end());
    collect_own();
  }

  CheckReport run() {
    report_.microvms = static_cast<int>(expected_.microvms.size());
    microvms();
    machines();
    cgroups();
    uids_and_processes();
    networks();
    holders();
    for (const std::string& mount : found_.mounts) {
      if (mount.find("/netns/") == std::string::npos)
        note("mount", mount, "is mounted below the data directory and nothing uses it");
    }
    for (const std::string& snapshot : found_.snapshots) {
      if (!expected_.snapshots.contains(snapshot) && !expected_.coming.contains(snapshot))
        note("snapshot", snapshot, "belongs to no image version");
    }
    for (const std::string& snapshot : expected_.snapshots) {
      if (std::ranges::find(found_.snapshots, snapshot) == found_.snapshots.end())
        note("image", snapshot, "has lost its snapshot; build the image again");
    }
    bases();
    logs();
    for (const std::string& kernel : found_.old_kernels)
      note("kernel", kernel, "was prepared for builds with another agent than today's");
    return std::move(report_);
  }

 private:
  void note(std::string kind, std::string name, std::string what) {
    report_.found.push_back(
        {.kind = std::move(kind), .name = std::move(name), .what = std::move(what)});
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
    for (const machine::FoundMachine& machine : found_.machines) own_.insert(machine.id);
    for (const machine::UidLease& lease : found_.uids) own_.insert(lease.owner);
    own_.insert(networks_.begin(), networks_.end());
    for (const std::string& file : files_.app_logs) own_.insert(AppLog::owner_of(file).str());
  }

  // Between transitions a microVM has exactly what its state needs.
  void microvms() {
    std::map<std::string, machine::FoundMachine> by_id;
    for (const machine::FoundMachine& machine : found_.machines) by_id[machine.id] = machine;
    std::set<std::string> groups;
    for (const machine::FoundCgroup& group : found_.cgroups) groups.insert(group.name);
    for (const core::Microvm& microvm : expected_.microvms) {
      if (microvm.intent != core::Intent::none) continue;
      const std::string& id = microvm.id.str();
      const auto at = by_id.find(id);
      const bool found = at != by_id.end();
      if (microvm.state == MicrovmState::running) {
        if (!found || at->second.suspended || !at->second.process || !groups.contains(id))
          note("microvm", id, "is RUNNING in the store and has no running machine");
        if (found) files(at->second, kStrangeAwake);
      }
      if (microvm.state == MicrovmState::suspended) {
        if (!found || !at->second.suspended)
          note("microvm", id, "is SUSPENDED in the store and its saved state is missing");
        else if (at->second.process || groups.contains(id))
          note("microvm", id, "is SUSPENDED in the store and its machine still runs");
        else
          files(at->second, kStrangeAsleep);
      }
    }
  }

  // Files of a transition that nobody is in.
  void files(const machine::FoundMachine& machine, std::string_view strange) {
    for (const std::string& name : machine.files) {
      if (strange.find(" " + name + " ") != std::string_view::npos)
        note("file", "machines/" + machine.id + "/" + name, "was left by a transition");
    }
  }

  // Of microVMs they stay as long as the record, of builds too.
  void logs() {
    for (const std::string& file : files_.app_logs) {
      const std::string id = AppLog::owner_of(file).str();
      if (!expected_.recorded.contains(id) && !owners_.contains(id))
        note("log", "logs/" + file, "belongs to no microVM");
    }
    for (const std::string& build : files_.build_logs) {
      if (!expected_.builds.contains(build)) note("log", "builds/" + build, "belongs to no build");
    }
  }

  void holders() {
    for (const machine::FoundHolder& holder : found_.holders) {
      if (!holder.noted)
        note("holder", std::to_string(holder.pid),
             "keeps memory of " + holder.directory + ", which does not name it");
    }
  }

  void bases() {
    std::map<std::string, std::string> stand_on;  // by path
    for (const auto& [snapshot, path] : found_.missing_disks) {
      if (!expected_.snapshots.contains(snapshot)) continue;
      std::string& names = stand_on[path];
      names += (names.empty() ? "" : ", ") + snapshot;
    }
    for (const auto& [path, snapshots] : stand_on)
      note("base", path,
           "is gone, and these snapshots stand on it: " + snapshots +
               "; put it back, or build the images again");
  }

  void machines() {
    for (const machine::FoundMachine& machine : found_.machines) {
      if (!owners_.contains(machine.id)) note("machine", machine.id, "belongs to no microVM");
    }
  }

  void networks() {
    std::set<std::string> asleep;
    for (const core::Microvm& microvm : expected_.microvms) {
      if (microvm.state == MicrovmState::suspended && microvm.intent == core::Intent::none)
        asleep.insert(microvm.id.str());
    }
    for (const std::string& id : networks_) {
      if (!owners_.contains(id)) note("network", id, "belongs to no microVM");
      if (asleep.contains(id)) note("network", id, "belongs to a microVM that is SUSPENDED");
    }
  }

  void cgroups() {
    for (const machine::FoundCgroup& group : found_.cgroups) {
      if (owners_.contains(group.name)) continue;
      // Its processes know better than its name: a data directory may have been copied.
      if (group.ours.value_or(own_.contains(group.name)))
        note("cgroup", group.name, "belongs to no microVM");
      else
        note_unclear("cgroup", group.name, "cannot be tied to this data directory");
    }
  }

  void uids_and_processes() {
    std::map<uid_t, std::string> owner_of;
    for (const machine::UidLease& lease : found_.uids) {
      owner_of[lease.uid] = lease.owner;
      if (!owners_.contains(lease.owner))
        note("uid", std::to_string(lease.uid),
             "is leased to " + (lease.owner.empty() ? "nobody" : lease.owner));
    }
    for (const machine::FoundProcess& process : found_.processes) {
      const std::string pid = std::to_string(process.pid);
      if (!process.ours) {
        note_unclear("process", pid,
                     "runs under uid " + std::to_string(process.uid) +
                         " and cannot be tied to this data directory");
        continue;
      }
      const auto at = owner_of.find(process.uid);
      if (at == owner_of.end() || !owners_.contains(at->second))
        note("process", pid, "runs under a uid that no microVM has");
    }
  }

  const Expected& expected_;
  const machine::Inventory& found_;
  const Found& files_;
  const std::vector<std::string>& networks_;
  std::set<std::string> owners_;  // machines that should be there
  std::set<std::string> own_;     // and those that this data directory has had
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
    if (!version.snapshot.empty()) expected.snapshots.insert(version.snapshot);
    if (version.state == core::VersionState::in_progress)
      expected.coming.insert(version.image.str() + "-" + std::to_string(version.number));
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
  Repair(store::Database& db, machine::QemuEngine& engine, std::string data_dir,
         std::optional<RunningServer> server)
      : db_(db), engine_(engine), data_dir_(std::move(data_dir)), server_(std::move(server)) {}

  net::Task<bool> put_right(Discrepancy leak) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(30));
    if (leak.kind == "machine" || leak.kind == "cgroup")
      co_return (co_await engine_.discard(leak.name, deadline)).has_value();
    if (leak.kind == "snapshot" || leak.kind == "kernel") {
      const std::string directory = data_dir_ + "/" + leak.kind + "s/" + leak.name;
      co_return (co_await engine_.remove_snapshot(directory, deadline)).has_value();
    }
    if (leak.kind == "image") co_return co_await fail_image(leak.name);
    if (leak.kind == "microvm") co_return co_await settle(leak.name, deadline);
    if (leak.kind == "network") co_return egress::remove_network(data_dir_, leak.name).has_value();
    if (leak.kind == "process" || leak.kind == "holder") co_return end_process(leak);
    if (leak.kind == "uid") {
      const auto uid = static_cast<uid_t>(parse_u64(leak.name).value_or(0));
      co_return engine_.host().release_uid(uid).has_value();
    }
    if (leak.kind == "mount") {
      // Elsewhere below the data directory it may be a disk of the operator's.
      co_return leak.name.starts_with(data_dir_ + "/machines/") &&
          ::umount2(leak.name.c_str(), MNT_DETACH) == 0;
    }
    if (leak.kind == "file" || leak.kind == "log")
      co_return ::unlink((data_dir_ + "/" + leak.name).c_str()) == 0;
    co_return false;
  }

 private:
  bool end_process(const Discrepancy& leak) {
    const auto pid = static_cast<pid_t>(parse_u64(leak.name).value_or(0));
    const auto id = machine::identify(pid);
    if (!id) return true;
    auto process = machine::adopt(*id);
    if (!process) return true;
    // What the handle names is asked about once more: a pid may have a new owner by now.
    const bool ours =
        leak.kind == "holder" ? holds_for_us(pid) : engine_.own_processes().contains(pid);
    return ours && process->kill().has_value();
  }

  bool holds_for_us(pid_t pid) const {
    const auto holders = machine::holders_below(data_dir_);
    return std::ranges::find(holders, pid, &machine::FoundHolder::pid) != holders.end();
  }

  net::Task<bool> fail_image(std::string snapshot) {
    if (server_) co_return co_await server_->lost(std::move(snapshot));
    const core::Time now = core::SystemClock().now();
    const auto failed = co_await db_.run(
        [&](store::Store& store) { return fail_versions_of(store, snapshot, now); });
    co_return failed.has_value();
  }

  net::Task<bool> settle(std::string id, Deadline deadline) {
    if (server_) co_return co_await server_->settle(std::move(id));
    // Attaching ends what runs beside a saved state; all else the next server settles when it
    // starts.
    const auto found = engine_.list();
    if (!found) co_return false;
    const auto at = std::ranges::find(*found, id, &machine::FoundMachine::id);
    if (at == found->end() || !at->suspended || !at->process) co_return false;
    (void)co_await engine_.attach(id, deadline);
    co_return true;
  }

  store::Database& db_;
  machine::QemuEngine& engine_;
  std::string data_dir_;
  std::optional<RunningServer> server_;
};

}  // namespace

CheckContext host_context(store::Database& db, machine::QemuEngine& engine, std::string data_dir,
                          std::optional<RunningServer> server) {
  auto repair = std::make_shared<Repair>(db, engine, data_dir, server);
  CheckContext context{.db = db, .look = {}, .other_machines = {}, .put_right = {}};
  context.look = [&engine, data_dir = std::move(data_dir)]() -> Result<Found> {
    Found found;
    FB_TRY_ASSIGN(found.machines, engine.inventory());
    FB_TRY_ASSIGN(found.networks, egress::found_networks(data_dir));
    found.app_logs = sys::list_dir(data_dir + "/logs").value_or(std::vector<std::string>());
    found.build_logs = sys::list_dir(data_dir + "/builds").value_or(std::vector<std::string>());
    return found;
  };
  context.other_machines = [&engine, server = std::move(server)] {
    std::set<std::string> ids = server ? server->machines() : std::set<std::string>();
    if (!engine.preparing().empty()) ids.insert(engine.preparing());
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
