// What the engine writes about snapshots and machines, as JSON files replaced atomically:
// snapshot.json and machine.json. A machine's record is enough to find, adopt, resume or remove it
// after a restart. Values and blocking functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/engine.h"
#include "machine/process.h"
#include "machine/qemu/accelerator.h"
#include "machine/qemu/command_line.h"

namespace firebreak::machine {

// A snapshot loads only where all of this is the same.
struct SnapshotKey {
  std::uint64_t format = 1;
  std::string runtime;  // hash of QEMU and everything it loads
  std::string qemu_version;
  Accelerator accelerator = Accelerator::tcg;
  std::string cpu_model;
  std::string device_graph;
  std::uint64_t tsc_khz = 0;  // 0 with KVM
  std::uint64_t agent_protocol = 1;
  friend bool operator==(const SnapshotKey&, const SnapshotKey&) = default;
};

bool loads_here(const SnapshotKey& there, const SnapshotKey& here);
// Names the first member that differs, for people: "QEMU version: 7.2.21 there, 7.2.22 here".
std::string describe_difference(const SnapshotKey& there, const SnapshotKey& here);

struct DiskLayer {
  std::string path;
  DiskFormat format = DiskFormat::qcow2;
  std::uint64_t bytes = 0;  // of the file, when it became immutable
  friend bool operator==(const DiskLayer&, const DiskLayer&) = default;
};

// How records name this engine.
inline constexpr const char* kQemuEngine = "qemu";

struct SnapshotRecord {
  std::string engine = kQemuEngine;
  SnapshotKey key;  // its accelerator says which class of isolation the snapshot's machines have
  Size size;
  std::string ram_sha256;
  std::string state_sha256;
  std::vector<DiskLayer> disks;  // bottom first, all immutable
  std::uint64_t disk_bytes = 0;  // virtual
  // Of each disk (sparse_hash); empty: not taken yet. Older records have none.
  std::vector<std::string> disk_sha256;
};

// Whether it is suspended is told by the file `saved` in its directory, not by the record.
enum class MachinePhase { starting, running, parked };
std::string_view to_string(MachinePhase phase);

struct MachineRecord {
  std::string id;
  MachinePhase phase = MachinePhase::starting;
  std::string snapshot;  // directory; empty: booted from disk
  std::string runtime;   // hash of the QEMU files it runs with
  Size size;
  HostLimits limits;
  std::vector<DiskLayer> disks;  // bottom first; the last one is the machine's own
  std::uint32_t uid = 0;
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;
  std::string boot_id;   // of the host when the process was started
  bool network = false;  // attached to one
  bool forked = false;   // carries sockets of its parent until its first wake
  // While the disk gets a new layer: the number of QEMU's node that was the top. 0: it does not.
  std::uint64_t switching = 0;
  friend bool operator==(const MachineRecord&, const MachineRecord&) = default;
};

// The machine's process, alive or not.
inline ProcessId process_of(const MachineRecord& record) {
  return {static_cast<pid_t>(record.pid), record.start_time, record.boot_id};
}

std::string to_json_text(const SnapshotRecord& record);
std::string to_json_text(const MachineRecord& record);
// Code::corrupt for anything that is not exactly what we write.
Result<SnapshotRecord> parse_snapshot_record(std::string_view text);
Result<MachineRecord> parse_machine_record(std::string_view text);

}  // namespace firebreak::machine
