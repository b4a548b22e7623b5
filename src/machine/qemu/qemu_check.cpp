// What the engine has on the host, found by looking, and its removal.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <sys/mount.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/process.h"
#include "machine/qemu/base_holder.h"
#include "machine/qemu/fork_base.h"
#include "machine/qemu/qemu_engine.h"

namespace firebreak::machine {
namespace {

constexpr const char* kHolder = "holder";
constexpr const char* kKernel = "kernel";

// What a machine's directory has only during a transition.
constexpr std::array<std::string_view, 4> kTransitionFiles{"saved.new", "forked", "forked.new",
                                                           "resuming"};
// And what it has only while there is a process.
constexpr std::array<std::string_view, 3> kProcessFiles{"qmp.sock", "ctl.sock", "data.sock"};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Below the data directory.
std::vector<std::string> strays_of(const MachineHost& host, const FoundMachine& machine) {
  std::vector<std::string> strays;
  const auto names = sys::list_dir(host.machine_dir(machine.id));
  if (!names) return strays;
  for (const std::string& name : *names) {
    if (is_in(kTransitionFiles, name) || (machine.suspended && is_in(kProcessFiles, name)))
      strays.push_back("machines/" + machine.id + "/" + name);
  }
  return strays;
}

Result<> not_ours(const Leftover& leftover) {
  return fail(Code::not_found, "the " + leftover.kind + " " + leftover.name +
                                   " does not belong to this data directory any more");
}

}  // namespace

Result<std::vector<FoundMachine>> QemuEngine::list() const {
  FB_TRY_ASSIGN(const std::vector<std::string> ids, host_.machine_ids());
  std::vector<FoundMachine> found;
  for (const std::string& id : ids) {
    FoundMachine machine{.id = id, .suspended = is_suspended(id)};
    if (auto record = host_.read_record(id)) {
      machine.parked = record->phase == MachinePhase::parked;
      machine.process = record->pid != 0 && is_alive(process_of(*record));
    }
    machine.strays = strays_of(host_, machine);
    found.push_back(std::move(machine));
  }
  return found;
}

std::set<std::string> QemuEngine::own_machines() const {
  return preparing_id_.empty() ? std::set<std::string>() : std::set{preparing_id_};
}

OwnProcesses QemuEngine::own_processes() const {
  std::set<pid_t> recorded;
  if (const auto ids = host_.machine_ids()) {
    for (const std::string& id : *ids) {
      const auto record = host_.read_record(id);
      if (record && record->pid != 0 && is_alive(process_of(*record)))
        recorded.insert(static_cast<pid_t>(record->pid));
    }
  }
  return {host_.config().data_dir, std::move(recorded)};
}

std::vector<OwnLeftover> QemuEngine::own_leftovers() const {
  std::vector<OwnLeftover> found;
  for (const FoundHolder& holder : holders_below(host_.config().data_dir)) {
    if (!holder.noted)
      found.push_back({{kHolder, std::to_string(holder.pid)},
                       "keeps memory of " + holder.directory + ", which does not name it"});
  }
  const auto names = sys::list_dir(host_.config().data_dir + "/kernels");
  // Without the guest's files it cannot be said which ones builds would use.
  const auto current = kernel_suffix();
  if (!names || !current) return found;
  for (const std::string& name : *names) {
    if (!name.ends_with(*current))
      found.push_back({{kKernel, name}, "was prepared for builds with another agent than today's"});
  }
  return found;
}

Result<Inventory> QemuEngine::inventory() const {
  Inventory found{.engine = name()};
  FB_TRY_ASSIGN(found.machines, list());
  const OwnProcesses own = own_processes();
  FB_TRY_ASSIGN(const std::vector<std::string> groups, host_.cgroup_names());
  for (const std::string& name : groups) {
    FoundCgroup group{.name = name, .ours = std::nullopt};
    const auto pids = host_.cgroup_processes(name);
    if (pids && !pids->empty())
      group.ours = std::ranges::any_of(*pids, [&own](pid_t pid) { return own.contains(pid); });
    found.cgroups.push_back(std::move(group));
  }
  FB_TRY_ASSIGN(found.uids, host_.uid_leases());
  found.processes = processes_of(host_.config().uids);
  for (FoundProcess& process : found.processes) process.ours = own.contains(process.pid);
  found.mounts = mounts_below(host_.config().data_dir);
  const std::string directory = snapshot_directory("");
  if (auto names = sys::list_dir(directory)) found.snapshots = *names;
  std::erase_if(found.snapshots, [&](const std::string& name) {
    return is_fork_base(name) && fork_base_is_used(host_, directory + name).value_or(false);
  });
  for (const std::string& name : found.snapshots) {
    const auto disk = machine::snapshot_disk(directory + name);
    if (!disk) continue;  // half of one has no record
    std::vector<std::string> paths = disk->layers;
    paths.push_back(disk->base);
    for (const std::string& path : paths)
      if (!path.starts_with(directory) && !sys::exists(path))
        found.missing_disks.push_back({name, path});
  }
  found.leftovers = own_leftovers();
  return found;
}

// ------------------------------------------------------------------------------------------ repair

Result<> QemuEngine::end_process(const Leftover& leftover) const {
  const auto pid = static_cast<pid_t>(parse_u64(leftover.name).value_or(0));
  const auto id = identify(pid);
  if (!id) return {};
  auto process = adopt(*id);
  if (!process) return {};
  // What the handle names is asked about once more: a pid may have a new owner by now.
  bool ours = false;
  if (leftover.kind == kHolder) {
    const auto holders = holders_below(host_.config().data_dir);
    ours = std::ranges::find(holders, pid, &FoundHolder::pid) != holders.end();
  } else {
    ours = own_processes().contains(pid);
  }
  return ours ? process->kill() : not_ours(leftover);
}

Result<> QemuEngine::repair_now(const Leftover& leftover, Deadline deadline) {
  const std::string& data_dir = host_.config().data_dir;
  if (leftover.kind == "machine" || leftover.kind == "cgroup") {
    FB_TRY(MachineHost::check_id(leftover.name));
    return host_.remove(leftover.name, deadline);
  }
  if (leftover.kind == "process" || leftover.kind == kHolder) return end_process(leftover);
  if (leftover.kind == "uid")
    return host_.release_uid(static_cast<uid_t>(parse_u64(leftover.name).value_or(0)));
  if (leftover.kind == "mount") {
    // Elsewhere below the data directory it may be a disk of the operator's.
    if (!leftover.name.starts_with(data_dir + "/machines/")) return not_ours(leftover);
    if (::umount2(leftover.name.c_str(), MNT_DETACH) != 0)
      return fail_errno("umount " + leftover.name);
    return {};
  }
  if (leftover.kind == "file") {
    const std::string path = data_dir + "/" + leftover.name;
    if (::unlink(path.c_str()) != 0) return fail_errno("unlink " + path);
    return {};
  }
  return fail(Code::invalid, "the engine " + name() + " has no leftovers of kind " + leftover.kind);
}

net::Task<Result<>> QemuEngine::repair(Leftover leftover, Deadline deadline) {
  if (leftover.kind == "snapshot")
    co_return co_await remove_snapshot(snapshot_directory(leftover.name), deadline);
  if (leftover.kind == kKernel)
    co_return co_await remove_snapshot(host_.config().data_dir + "/kernels/" + leftover.name,
                                       deadline);
  auto now = [&]() { return repair_now(leftover, deadline); };
  co_return co_await net::run_blocking(pool_, now);
}

}  // namespace firebreak::machine
