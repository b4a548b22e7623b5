// What all machines of one engine share on the host: directories, uids, cgroups, QEMU's runtime,
// and the blocking steps that start a machine's process and remove every trace of it. Owned by the
// engine; blocking functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/cgroup.h"
#include "machine/jail.h"
#include "machine/network_backend.h"
#include "machine/process.h"
#include "machine/qemu/accelerator.h"
#include "machine/qemu/command_line.h"
#include "machine/qemu/faults.h"
#include "machine/qemu/records.h"
#include "machine/runtime_root.h"
#include "machine/uid_pool.h"

namespace firebreak::machine {

struct QemuConfig {
  std::string data_dir;
  std::string kernel;     // vmlinux
  std::string initramfs;  // with the agent as /init
  std::string holder;     // program that keeps a snapshot's RAM alive across daemons
  Accelerator accelerator = Accelerator::tcg;
  UidRange uids;
  std::string cgroup_root = "firebreak";
  NetworkBackend* networks = nullptr;  // none: this host has no networks for machines
};

// A started process and our ends of its sockets.
struct StartedProcess {
  JailedProcess process;
  UniqueFd qmp;
  UniqueFd ctl;
  UniqueFd data;
};

class MachineHost {
 public:
  static Result<MachineHost> open(QemuConfig config);

  const QemuConfig& config() const { return config_; }
  const RuntimeRoot& runtime() const { return runtime_; }
  std::uint64_t tsc_khz() const { return tsc_khz_; }
  FaultPoints& faults() { return faults_; }

  // Names become directories and cgroups: 1 to 64 letters, digits, '-' and '_'.
  static Result<> check_id(const std::string& id);
  // The same, and no machine has it: Code::conflict.
  Result<> check_new(const std::string& id) const;
  std::string machine_dir(const std::string& id) const {
    return config_.data_dir + "/machines/" + id;
  }
  Result<MachineRecord> read_record(const std::string& id) const;
  // Only against a crash of the daemon: a running machine does not survive its host anyway.
  Result<> write_record(const MachineRecord& record) const;

  // Directory, uid and own disk layer for a new machine. `record.disks` holds the layers below; the
  // own one is added.
  Result<> prepare(MachineRecord& record, std::uint64_t disk_bytes);
  // Starts QEMU in its jail and connects. Fills pid and start time and writes the record.
  Result<StartedProcess> start(MachineRecord& record, const CommandLine& line,
                               std::vector<PassedFd> extra_fds);
  // Our ends of the sockets of a machine that runs already.
  Result<StartedProcess> connect(const MachineRecord& record);
  // Kills it if it runs; removes cgroup, directory, uid lease. Goes on after a failure and returns
  // the first one.
  Result<> remove(const std::string& id, Deadline deadline);
  // Ends the process and removes its cgroup and sockets, but keeps directory and uid: what suspend
  // leaves.
  Result<> stop_process(const MachineRecord& record, Deadline deadline);

  Result<CgroupUsage> usage(const std::string& id) const;
  Result<> set_limits(MachineRecord& record, const HostLimits& limits) const;

  // The key that a snapshot of this size made here and now has.
  SnapshotKey key(const Size& size) const;
  // Empty when a snapshot with this key loads here (with the kept copy of an older QEMU if need
  // be), else why not.
  std::string why_not_loadable(const SnapshotKey& key, const Size& size) const;
  // With the latest device graph.
  CommandLine command_line(const Size& size, const std::vector<DiskLayer>& disks) const;
  // With the one that a snapshot was made with.
  CommandLine command_line(const SnapshotRecord& snapshot,
                           const std::vector<DiskLayer>& disks) const;
  // Everything a leak check compares with what should exist.
  Result<std::vector<std::string>> machine_ids() const;
  Result<std::vector<std::string>> cgroup_names() const { return cgroups_.list(); }
  Result<std::vector<pid_t>> cgroup_processes(const std::string& name) const;
  Result<std::vector<UidLease>> uid_leases() const { return uids_.list(); }
  Result<> release_uid(uid_t uid) const { return uids_.release(uid); }

 private:
  // None: no server of ours made such a snapshot.
  std::optional<DeviceGraph> graph_of(const SnapshotKey& key, const Size& size) const;
  MachineHost(QemuConfig config, RuntimeRoot runtime, UidPool uids, UniqueFd shim);

  QemuConfig config_;
  RuntimeRoot runtime_;
  UidPool uids_;
  CgroupRoot cgroups_;
  std::uint64_t tsc_khz_ = 0;
  UniqueFd shim_;  // what the jail's QEMU loads first
  FaultPoints faults_;
};

// Measures the host's TSC against the monotonic clock (20 ms).
std::uint64_t measure_tsc_khz();

}  // namespace firebreak::machine
