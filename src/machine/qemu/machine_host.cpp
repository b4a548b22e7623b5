#include "machine/qemu/machine_host.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "base/links.h"
#include "base/sys.h"
#include "machine/qemu/fork_base.h"
#include "machine/qemu/host_cpu.h"
#include "machine/qemu/qcow2.h"
#include "machine/qemu/ram_shim.h"

namespace firebreak::machine {
namespace {

constexpr std::string_view kSockets[] = {"qmp", "ctl", "data"};

// Socket paths are limited to 107 bytes; going through a descriptor of the directory lifts that.
struct SocketAddress {
  UniqueFd directory;
  sockaddr_un address{};
};

Result<SocketAddress> socket_address(const std::string& directory, std::string_view name) {
  SocketAddress out;
  FB_TRY_ASSIGN(out.directory, sys::open(directory, O_PATH | O_DIRECTORY));
  const std::string path =
      "/proc/self/fd/" + std::to_string(out.directory.get()) + "/" + std::string(name) + ".sock";
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path, path.c_str(), path.size() + 1);
  return out;
}

Result<UniqueFd> listen_on(const std::string& directory, std::string_view name) {
  ::unlink((directory + "/" + std::string(name) + ".sock").c_str());
  FB_TRY_ASSIGN(SocketAddress at, socket_address(directory, name));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&at.address), sizeof at.address) != 0)
    return fail_errno("bind " + std::string(name) + ".sock");
  if (::listen(fd.get(), 4) != 0) return fail_errno("listen");
  return fd;
}

Result<UniqueFd> connect_to(const std::string& directory, std::string_view name) {
  FB_TRY_ASSIGN(SocketAddress at, socket_address(directory, name));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket");
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&at.address), sizeof at.address) != 0)
    return fail_errno("connect to " + std::string(name) + ".sock");
  return fd;
}

CgroupLimits cgroup_limits(const MachineRecord& record) {
  return {.memory_max_bytes = record.limits.memory_bytes,
          .cpu_weight = record.limits.cpu_weight,
          .cpu_quota_percent = record.limits.cpu_percent,
          .pids_max = 64 + record.size.vcpus};
}

std::vector<JailedProcess> processes_of(const Cgroup& cgroup) {
  std::vector<JailedProcess> processes;
  const auto pids = cgroup.processes();
  if (!pids) return processes;
  for (const pid_t pid : *pids) {
    const auto id = identify(pid);
    if (!id) continue;
    if (auto process = adopt(*id)) processes.push_back(*std::move(process));
  }
  return processes;
}

}  // namespace

std::uint64_t measure_tsc_khz() {
  using Clock = std::chrono::steady_clock;
  const auto from = Clock::now();
  const std::uint64_t ticks = __rdtsc();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto to = Clock::now();
  const std::uint64_t after = __rdtsc();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
  return static_cast<std::uint64_t>(static_cast<double>(after - ticks) * 1e6 /
                                    static_cast<double>(ns));
}

MachineHost::MachineHost(QemuConfig config, RuntimeRoot runtime, UidPool uids, UniqueFd shim)
    : config_(std::move(config)),
      runtime_(std::move(runtime)),
      uids_(std::move(uids)),
      cgroups_(config_.cgroup_root),
      tsc_khz_(config_.accelerator == Accelerator::tcg ? measure_tsc_khz() : 0),
      shim_(std::move(shim)) {}

Result<MachineHost> MachineHost::open(QemuConfig config) {
  FB_TRY(sys::mkdirs(config.data_dir + "/machines", 0700));
  FB_TRY_ASSIGN(RuntimeRoot runtime, prepare_runtime_root(config.data_dir));
  FB_TRY_ASSIGN(UidPool uids, UidPool::open(config.data_dir, config.uids));
  FB_TRY_ASSIGN(UniqueFd shim, open_ram_shim(config.data_dir));
  return MachineHost(std::move(config), std::move(runtime), std::move(uids), std::move(shim));
}

Result<> MachineHost::check_id(const std::string& id) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (!id.empty() && id.size() <= 64 && id.find_first_not_of(kAllowed) == std::string::npos)
    return {};
  return fail(Code::invalid, "a machine's id has 1 to 64 letters, digits, '-' and '_'");
}

Result<> MachineHost::check_new(const std::string& id) const {
  FB_TRY(check_id(id));
  if (sys::exists(machine_dir(id)))
    return fail(Code::conflict, "machine " + id + " exists already");
  return {};
}

Result<MachineRecord> MachineHost::read_record(const std::string& id) const {
  auto text = sys::read_file(machine_dir(id) + "/machine.json");
  if (!text) return fail(text.error(), "machine " + id);
  auto record = parse_machine_record(*text);
  if (!record) return fail(record.error(), "machine " + id);
  if (record->id != id)
    return fail(Code::corrupt, "the record of machine " + id + " names " + record->id);
  return record;
}

Result<> MachineHost::write_record(const MachineRecord& record) const {
  return sys::swap_file(machine_dir(record.id) + "/machine.json", to_json_text(record));
}

Result<std::vector<std::string>> MachineHost::machine_ids() const {
  return sys::list_dir(config_.data_dir + "/machines");
}

Result<std::vector<pid_t>> MachineHost::cgroup_processes(const std::string& name) const {
  FB_TRY_ASSIGN(const Cgroup cgroup, cgroups_.open(name));
  return cgroup.processes();
}

SnapshotKey MachineHost::key(const Size& size) const {
  SnapshotKey key;
  key.runtime = runtime_.hash;
  key.qemu_version = runtime_.qemu_version;
  key.accelerator = config_.accelerator;
  key.cpu_model = cpu_model(config_.accelerator);
  if (config_.accelerator == Accelerator::kvm) key.cpu_model += " on " + host_cpu();
  key.device_graph = device_graph_hash(command_line(size, {DiskLayer{}, DiskLayer{}}));
  key.tsc_khz = tsc_khz_;
  return key;
}

std::string MachineHost::why_not_loadable(const SnapshotKey& there, const Size& size) const {
  SnapshotKey here = key(size);
  if (there.runtime != here.runtime && open_runtime_root(config_.data_dir, there.runtime)) {
    here.runtime = there.runtime;
    here.qemu_version = there.qemu_version;
  }
  if (graph_of(there, size)) here.device_graph = there.device_graph;
  return loads_here(there, here) ? std::string() : describe_difference(there, here);
}

std::optional<DeviceGraph> MachineHost::graph_of(const SnapshotKey& key, const Size& size) const {
  CommandLine line = command_line(size, {DiskLayer{}, DiskLayer{}});
  for (const DeviceGraph graph : {DeviceGraph::gives_memory, DeviceGraph::first}) {
    line.graph = graph;
    if (device_graph_hash(line) == key.device_graph) return graph;
  }
  return std::nullopt;
}

CommandLine MachineHost::command_line(const SnapshotRecord& snapshot,
                                      const std::vector<DiskLayer>& disks) const {
  CommandLine line = command_line(snapshot.size, disks);
  line.graph = graph_of(snapshot.key, snapshot.size).value_or(kLatestGraph);
  return line;
}

CommandLine MachineHost::command_line(const Size& size, const std::vector<DiskLayer>& disks) const {
  CommandLine line;
  line.qemu = runtime_.qemu_path;
  line.accelerator = config_.accelerator;
  line.size = size;
  line.tsc_khz = tsc_khz_;
  for (const DiskLayer& disk : disks) line.disks.push_back(disk.format);
  return line;
}

Result<> MachineHost::prepare(MachineRecord& record, std::uint64_t disk_bytes) {
  const std::string directory = machine_dir(record.id);
  if (::mkdir(directory.c_str(), 0700) != 0)
    return fail_errno("making the directory of machine " + record.id);
  FB_TRY_ASSIGN(record.uid, uids_.lease(record.id));
  record.disks.push_back({directory + "/disk.qcow2", DiskFormat::qcow2, 0});
  FB_TRY(write_record(record));
  return create_qcow2(record.disks.back().path, disk_bytes);
}

Result<StartedProcess> MachineHost::start(MachineRecord& record, const CommandLine& line,
                                          std::vector<PassedFd> extra_fds) {
  const std::string directory = machine_dir(record.id);
  std::vector<PassedFd> fds = std::move(extra_fds);
  fds.push_back({shim_.get(), fd_number::kShim});
  std::vector<UniqueFd> owned;
  const auto pass = [&](UniqueFd fd, int as) {
    fds.push_back({fd.get(), as});
    owned.push_back(std::move(fd));
  };
  constexpr int kNumbers[] = {fd_number::kQmp, fd_number::kCtl, fd_number::kData};
  for (std::size_t i = 0; i < std::size(kSockets); ++i) {
    FB_TRY_ASSIGN(UniqueFd fd, listen_on(directory, kSockets[i]));
    pass(std::move(fd), kNumbers[i]);
  }
  for (std::size_t level = 0; level < record.disks.size(); ++level) {
    const bool own = level + 1 == record.disks.size();
    FB_TRY_ASSIGN(UniqueFd fd, sys::open(record.disks[level].path, own ? O_RDWR : O_RDONLY));
    pass(std::move(fd), fd_number::kDisk + static_cast<int>(level));
  }
  CommandLine full = line;
  if (record.network) {
    if (config_.networks == nullptr)
      return fail(Code::unavailable,
                  "this host has no networks for microVMs: see firebreak doctor");
    UniqueFd tap;
    FB_TRY(config_.networks->attach(record.id, [&tap](const std::string& device) -> Result<> {
      FB_TRY_ASSIGN(tap, open_tap(device));
      return {};
    }));
    faults_.reach("start.plugged");
    full.tap = true;
    pass(std::move(tap), fd_number::kTap);
  }
  FB_TRY_ASSIGN(UniqueFd log,
                sys::open(directory + "/qemu.log", O_WRONLY | O_CREAT | O_APPEND, 0600));

  FB_TRY_ASSIGN(const Cgroup cgroup, cgroups_.create(record.id, cgroup_limits(record)));
  faults_.reach("start.cgroup");

  RuntimeRoot runtime = runtime_;
  if (record.runtime != runtime_.hash) {
    FB_TRY_ASSIGN(runtime, open_runtime_root(config_.data_dir, record.runtime));
  }
  JailSpec spec{.runtime_root = runtime.path,
                .argv = build_arguments(full),
                .pass_fds = std::move(fds),
                .environment = {"LD_PRELOAD=/proc/self/fd/" + std::to_string(fd_number::kShim)},
                .uid = record.uid,
                .gid = record.uid,
                .cgroup = cgroup,
                .stderr_fd = log.get(),
                .kvm = config_.accelerator == Accelerator::kvm};
  FB_TRY_ASSIGN(JailedProcess process, spawn_jailed(spec));
  record.pid = process.id().pid;
  record.start_time = process.id().start_time;
  record.boot_id = process.id().boot_id;
  FB_TRY(write_record(record));
  faults_.reach("start.spawned");
  return connect(record);
}

Result<StartedProcess> MachineHost::connect(const MachineRecord& record) {
  const std::string directory = machine_dir(record.id);
  auto process = adopt(process_of(record));
  if (!process) {
    return fail(Code::unavailable, "the process of machine " + record.id + " has ended",
                process.error().text());
  }
  FB_TRY_ASSIGN(UniqueFd qmp, connect_to(directory, kSockets[0]));
  FB_TRY_ASSIGN(UniqueFd ctl, connect_to(directory, kSockets[1]));
  FB_TRY_ASSIGN(UniqueFd data, connect_to(directory, kSockets[2]));
  return StartedProcess{*std::move(process), std::move(qmp), std::move(ctl), std::move(data)};
}

Result<CgroupUsage> MachineHost::usage(const std::string& id) const {
  FB_TRY_ASSIGN(const Cgroup cgroup, cgroups_.open(id));
  return cgroup.usage();
}

Result<> MachineHost::set_limits(MachineRecord& record, const HostLimits& limits) const {
  FB_TRY_ASSIGN(const Cgroup cgroup, cgroups_.open(record.id));
  record.limits = limits;
  FB_TRY(cgroup.apply(cgroup_limits(record)));
  return write_record(record);
}

Result<> MachineHost::stop_process(const MachineRecord& record, Deadline deadline) {
  Result<> first;
  const auto note = [&first](Result<> result) {
    if (first && !result) first = std::move(result);
  };
  if (record.pid != 0) {
    const ProcessId id = process_of(record);
    if (auto process = adopt(id)) {
      if (auto ended = process->kill_and_wait(deadline); !ended)
        note(fail(ended.error(), "ending machine " + record.id));
    } else if (const auto zombie = identify(id.pid);
               zombie && zombie->start_time == id.start_time) {
      // It ended by itself; until it is reaped its uid counts as in use.
      ::waitpid(id.pid, nullptr, WNOHANG);
    }
  }
  if (auto cgroup = cgroups_.open(record.id)) {
    const std::vector<JailedProcess> members = processes_of(*cgroup);
    note(cgroup->destroy(deadline));
    // What was our child counts as a process of its uid until it is reaped.
    for (const JailedProcess& member : members) (void)member.wait(deadline);
  }
  // Whatever the record says: it may be damaged, or older than what happened.
  if (config_.networks != nullptr) note(config_.networks->detach(record.id));
  for (std::string_view name : kSockets)
    ::unlink((machine_dir(record.id) + "/" + std::string(name) + ".sock").c_str());
  return first;
}

Result<> MachineHost::remove(const std::string& id, Deadline deadline) {
  Result<> first;
  const auto note = [&first](Result<> result) {
    if (first && !result) first = std::move(result);
  };
  MachineRecord record;
  record.id = id;
  if (auto found = read_record(id)) record = *std::move(found);
  // A record that is missing or damaged costs the pid, not the processes: the cgroup names them,
  // too.
  note(stop_process(record, deadline));
  note(sys::remove_tree(machine_dir(id)));
  if (auto leases = uids_.list()) {
    for (const UidLease& lease : *leases)
      if (lease.owner == id) note(uids_.release(lease.uid));
  }
  note(remove_unused_fork_base(*this, record.snapshot));
  return first;
}

}  // namespace firebreak::machine
