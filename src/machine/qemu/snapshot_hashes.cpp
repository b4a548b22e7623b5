#include "machine/qemu/snapshot_hashes.h"

#include "base/sys.h"
#include "machine/qemu/ram_image.h"

namespace firebreak::machine {
namespace {

std::unexpected<Error> changed(const std::string& what) {
  return fail(Code::corrupt, Reason{"snapshot_changed"},
              what + " of the image's snapshot is not what was recorded",
              Repair{"build the image again, and find out who wrote to the data directory"});
}

using Files = std::map<std::string, std::unique_ptr<FileHash>>;

Result<std::string> hash_of(Files& files, const std::string& path,
                            const FileHash::Read& read = sha256_file) {
  auto& file = files[path];
  if (!file) file = std::make_unique<FileHash>(path, read);
  return file->get();
}

}  // namespace

std::shared_ptr<SnapshotHashes::Entry> SnapshotHashes::entry_of(const std::string& directory) {
  const std::scoped_lock lock(mutex_);
  auto& entry = entries_[directory];
  if (!entry) entry = std::make_shared<Entry>();
  return entry;
}

void SnapshotHashes::forget(const std::string& directory) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(directory);
}

Result<> SnapshotHashes::verify_disks(Entry& entry, const std::string& directory,
                                      SnapshotRecord& record) {
  bool taken = false;
  record.disk_sha256.resize(record.disks.size());
  for (std::size_t level = 0; level < record.disks.size(); ++level) {
    FB_TRY_ASSIGN(const std::string hash,
                  hash_of(entry.files, record.disks[level].path, sparse_hash));
    std::string& recorded = record.disk_sha256[level];
    if (recorded.empty()) {
      recorded = hash;
      taken = true;
    }
    if (recorded != hash) return changed("disk layer " + std::to_string(level));
  }
  if (!taken) return {};
  return sys::replace_file(directory + "/snapshot.json", to_json_text(record));
}

Result<> SnapshotHashes::verify(const std::string& directory) {
  const auto entry = entry_of(directory);
  const std::scoped_lock lock(entry->turn);
  FB_TRY_ASSIGN(const std::string text, sys::read_file(directory + "/snapshot.json"));
  FB_TRY_ASSIGN(SnapshotRecord record, parse_snapshot_record(text));
  FB_TRY_ASSIGN(const std::string state, hash_of(entry->files, directory + "/state"));
  if (state != record.state_sha256) return changed("the device state");
  FB_TRY_ASSIGN(const std::string ram, hash_of(entry->files, directory + "/ram", sparse_hash));
  if (ram != record.ram_sha256) return changed("the memory");
  return verify_disks(*entry, directory, record);
}

}  // namespace firebreak::machine
