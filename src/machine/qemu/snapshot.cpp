#include "machine/qemu/snapshot.h"

#include <unistd.h>

#include "base/sys.h"
#include "machine/hash.h"
#include "machine/kept_base.h"
#include "machine/qemu/base_holder.h"

namespace firebreak::machine {
namespace {

std::unexpected<Error> refused(const std::string& directory, const std::string& why,
                               Repair repair = {}) {
  return fail(Code::corrupt, "snapshot " + directory + " cannot be used: " + why,
              std::move(repair));
}

}  // namespace

Result<std::shared_ptr<QemuSnapshot>> QemuSnapshot::load(const MachineHost& host,
                                                         const std::string& directory) {
  auto text = sys::read_file(directory + "/snapshot.json");
  if (!text) return fail(text.error(), "loading a snapshot");
  FB_TRY_ASSIGN(SnapshotRecord record, parse_snapshot_record(*text));
  if (record.engine != kQemuEngine)
    return refused(directory, "the engine " + record.engine + " made it");
  if (const std::string why = host.why_not_loadable(record.key, record.size); !why.empty())
    return refused(directory, why, Repair{"build the image again on this host"});
  FB_TRY_ASSIGN(const std::string state, sha256_file(directory + "/state"));
  if (state != record.state_sha256) return refused(directory, "the device state is damaged");
  for (const DiskLayer& disk : record.disks) {
    if (!sys::exists(disk.path))
      return fail(Code::not_found,
                  "snapshot " + directory + " cannot be used: its disk " + disk.path + " is gone",
                  Repair{"put it back, or build the image again"});
    FB_TRY_ASSIGN(UniqueFd fd, sys::open(disk.path, O_RDONLY));
    FB_TRY_ASSIGN(const std::uint64_t bytes, sys::file_size(fd.get()));
    if (bytes != disk.bytes) return refused(directory, "disk layer " + disk.path + " has changed");
  }
  const std::uint64_t ram_size = static_cast<std::uint64_t>(record.size.memory_mib) << 20;
  if (auto held = adopt_from_holder(directory, ram_size))
    return std::make_shared<QemuSnapshot>(directory, std::move(record), *std::move(held));
  FB_TRY_ASSIGN(RamImage ram, RamImage::load(directory + "/ram", ram_size, record.ram_sha256));
  FB_TRY(start_holder(host.config().holder, directory, ram));
  return std::make_shared<QemuSnapshot>(directory, std::move(record), std::move(ram));
}

Result<> write_snapshot(const MachineHost& host, const std::string& directory,
                        const MachineRecord& machine, RamImage ram, std::uint64_t disk_bytes) {
  FB_TRY(ram.seal());
  SnapshotRecord record;
  record.key = host.key(machine.size);
  record.size = machine.size;
  record.disk_bytes = disk_bytes;
  FB_TRY_ASSIGN(record.ram_sha256, ram.save(directory + "/ram"));
  FB_TRY_ASSIGN(record.state_sha256, sha256_file(directory + "/state"));
  record.disks = machine.disks;
  DiskLayer& own = record.disks.back();
  if (::rename(own.path.c_str(), (directory + "/disk.qcow2").c_str()) != 0)
    return fail_errno("moving the disk");
  own.path = directory + "/disk.qcow2";
  for (DiskLayer& disk : record.disks) {
    FB_TRY_ASSIGN(UniqueFd fd, sys::open(disk.path, O_RDONLY));
    FB_TRY_ASSIGN(disk.bytes, sys::file_size(fd.get()));
    if (::fsync(fd.get()) != 0) return fail_errno("fsync " + disk.path);
  }
  record.disk_sha256.resize(record.disks.size());
  FB_TRY_ASSIGN(record.disk_sha256.back(), sparse_hash(own.path));
  if (::chmod(own.path.c_str(), 0400) != 0) return fail_errno("chmod " + own.path);
  FB_TRY(start_holder(host.config().holder, directory, ram));
  return sys::replace_file(directory + "/snapshot.json", to_json_text(record));
}

Result<DiskContent> snapshot_disk(const std::string& directory) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(directory + "/snapshot.json"));
  FB_TRY_ASSIGN(const SnapshotRecord record, parse_snapshot_record(text));
  DiskContent content{.base = record.disks.front().path, .layers = {}};
  for (std::size_t level = 1; level < record.disks.size(); ++level)
    content.layers.push_back(record.disks[level].path);
  return content;
}

Result<> keep_base_of(const std::string& directory, const std::string& bases) {
  const std::string file = directory + "/snapshot.json";
  FB_TRY_ASSIGN(const std::string text, sys::read_file(file));
  FB_TRY_ASSIGN(SnapshotRecord record, parse_snapshot_record(text));
  DiskLayer& base = record.disks.front();
  if (base.format != DiskFormat::raw) return {};
  FB_TRY_ASSIGN(const std::string kept, keep_base(base.path, bases));
  if (kept == base.path) return {};
  base.path = kept;
  return sys::replace_file(file, to_json_text(record));
}

void use_base_of(const QemuSnapshot& snapshot, MachineRecord& record) {
  const DiskLayer& base = snapshot.record().disks.front();
  if (!record.disks.empty() && base.format == DiskFormat::raw) record.disks.front() = base;
}

Result<> remove_snapshot(const std::string& directory, Deadline deadline) {
  stop_holder(directory, deadline);
  return sys::remove_tree(directory);
}

}  // namespace firebreak::machine
