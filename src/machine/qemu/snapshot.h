// A snapshot on disk (RAM, device state, disk layers, record) and in memory (the sealed RAM that
// clones share). Shared by its clones; immutable after load. Blocking functions; any thread.
#pragma once

#include <memory>
#include <string>

#include "machine/engine.h"
#include "machine/qemu/machine_host.h"
#include "machine/qemu/ram_image.h"

namespace firebreak::machine {

class QemuSnapshot final : public Snapshot {
 public:
  // Checks everything that can be checked before a machine runs on it.
  static Result<std::shared_ptr<QemuSnapshot>> load(const MachineHost& host,
                                                    const std::string& directory);

  QemuSnapshot(std::string directory, SnapshotRecord record, RamImage ram)
      : directory_(std::move(directory)), record_(std::move(record)), ram_(std::move(ram)) {}

  const std::string& directory() const override { return directory_; }
  Size size() const override { return record_.size; }
  std::uint64_t ram_bytes() const override { return ram_.allocated_bytes(); }
  const SnapshotRecord& record() const { return record_; }
  const RamImage& ram() const { return ram_; }
  std::string state_path() const { return directory_ + "/state"; }

 private:
  std::string directory_;
  SnapshotRecord record_;
  RamImage ram_;
};

// Writes what a stopped machine became: seals and saves RAM, moves its disk, writes the record
// last. `ram` must have no mapping left.
Result<> write_snapshot(const MachineHost& host, const std::string& directory,
                        const MachineRecord& machine, RamImage ram, std::uint64_t disk_bytes);

Result<DiskContent> snapshot_disk(const std::string& directory);

// Writes a record that names the disk at the bottom by a path in `bases`, if it does not.
Result<> keep_base_of(const std::string& directory, const std::string& bases);
// The disk at the bottom may have got another name since the machine's record was written.
void use_base_of(const QemuSnapshot& snapshot, MachineRecord& record);

// Ends the holder and removes the directory. No clone may be left.
Result<> remove_snapshot(const std::string& directory, Deadline deadline);

}  // namespace firebreak::machine
