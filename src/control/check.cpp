#include "control/check.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "egress/networks.h"
#include "machine/process.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

class Comparison {
 public:
  Comparison(const Expected& expected, const Found& found)
      : expected_(expected), found_(found.machines), networks_(found.networks) {
    for (const core::Microvm& microvm : expected_.microvms) owners_.insert(microvm.id.str());
    owners_.insert(expected_.other_machines.begin(), expected_.other_machines.end());
  }

  CheckReport run() {
    report_.microvms = static_cast<int>(expected_.microvms.size());
    microvms();
    machines();
    cgroups();
    uids_and_processes();
    networks();
    for (const std::string& mount : found_.mounts) {
      if (mount.find("/netns/") == std::string::npos)
        note("mount", mount, "is mounted below the data directory and nothing uses it");
    }
    for (const std::string& snapshot : found_.snapshots) {
      if (!expected_.snapshots.contains(snapshot))
        note("snapshot", snapshot, "belongs to no image version");
    }
    for (const std::string& snapshot : expected_.snapshots) {
      if (std::ranges::find(found_.snapshots, snapshot) == found_.snapshots.end())
        note("image", snapshot, "has lost its snapshot; build the image again");
    }
    return std::move(report_);
  }

 private:
  void note(std::string kind, std::string name, std::string what) {
    report_.found.push_back({std::move(kind), std::move(name), std::move(what), false});
  }

  // Between transitions a microVM has exactly what its state needs.
  void microvms() {
    std::map<std::string, machine::FoundMachine> by_id;
    for (const machine::FoundMachine& machine : found_.machines) by_id[machine.id] = machine;
    const std::set<std::string> groups(found_.cgroups.begin(), found_.cgroups.end());
    for (const core::Microvm& microvm : expected_.microvms) {
      if (microvm.intent != core::Intent::none) continue;
      const std::string& id = microvm.id.str();
      const auto at = by_id.find(id);
      if (microvm.state == MicrovmState::running &&
          (at == by_id.end() || at->second.suspended || !groups.contains(id)))
        note("microvm", id, "is RUNNING in the store and has no running machine");
      if (microvm.state == MicrovmState::suspended && (at == by_id.end() || !at->second.suspended))
        note("microvm", id, "is SUSPENDED in the store and its saved state is missing");
    }
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
    for (const std::string& name : found_.cgroups) {
      if (!owners_.contains(name)) note("cgroup", name, "belongs to no microVM");
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
      const auto at = owner_of.find(process.uid);
      if (at == owner_of.end() || !owners_.contains(at->second))
        note("process", std::to_string(process.pid), "runs under a uid that no microVM has");
    }
  }

  const Expected& expected_;
  const machine::Inventory& found_;
  const std::vector<std::string>& networks_;
  std::set<std::string> owners_;
  CheckReport report_;
};

}  // namespace

CheckReport compare(const Expected& expected, const Found& found) {
  return Comparison(expected, found).run();
}

namespace {

net::Task<bool> repair_one(CheckContext& context, const Discrepancy& leak) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  if (leak.kind == "machine" || leak.kind == "cgroup") {
    co_return (co_await context.engine.discard(leak.name, deadline)).has_value();
  }
  if (leak.kind == "network")
    co_return egress::remove_network(context.data_dir, leak.name).has_value();
  if (leak.kind == "snapshot") {
    co_return (co_await context.engine.remove_snapshot(context.data_dir + "/snapshots/" + leak.name,
                                                       deadline))
        .has_value();
  }
  if (leak.kind == "process") {
    const auto id = machine::identify(static_cast<pid_t>(parse_u64(leak.name).value_or(0)));
    if (!id) co_return true;
    auto process = machine::adopt(*id);
    co_return !process || process->kill().has_value();
  }
  if (leak.kind == "uid") {
    const auto uid = static_cast<uid_t>(parse_u64(leak.name).value_or(0));
    co_return context.engine.host().release_uid(uid).has_value();
  }
  co_return false;
}

}  // namespace

net::Task<Result<CheckReport>> check_host(CheckContext context, bool repair) {
  Expected expected;
  FB_CO_TRY_ASSIGN(expected.microvms, co_await context.db.run([](store::Store& store) {
    return store.live_microvms();
  }));
  FB_CO_TRY_ASSIGN(const auto versions, co_await context.db.run([](store::Store& store) {
    return store.all_versions();
  }));
  for (const core::ImageVersion& version : versions) {
    if (!version.snapshot.empty()) expected.snapshots.insert(version.snapshot);
    // Not yet in its record, but it may be written at any moment.
    if (version.state == core::VersionState::in_progress)
      expected.snapshots.insert(version.image.str() + "-" + std::to_string(version.number));
  }
  if (context.other_machines) expected.other_machines = context.other_machines();
  Found found;
  FB_CO_TRY_ASSIGN(found.machines, context.engine.inventory());
  FB_CO_TRY_ASSIGN(found.networks, egress::found_networks(context.data_dir));
  CheckReport report = compare(expected, found);
  if (repair) {
    for (Discrepancy& leak : report.found) leak.repaired = co_await repair_one(context, leak);
  }
  co_return report;
}

json::object to_json(const CheckReport& report) {
  json::array leaks;
  bool ok = true;
  for (const Discrepancy& leak : report.found) {
    ok = ok && leak.repaired;
    leaks.push_back(json::object{{"kind", leak.kind},
                                 {"name", leak.name},
                                 {"what", leak.what},
                                 {"repaired", leak.repaired}});
  }
  return {{"ok", ok}, {"microvms", report.microvms}, {"leaks", std::move(leaks)}};
}

}  // namespace firebreak::control
