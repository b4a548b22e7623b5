// Whether snapshots on the disk still are what their records say, file by file. What was not
// written since the last look is not read again. Owned by the engine; blocking; any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "machine/file_hash.h"
#include "machine/qemu/records.h"

namespace firebreak::machine {

class SnapshotHashes {
 public:
  // Code::corrupt names what differs from the record. The hash of a base that no snapshot had
  // recorded is taken now, and holds from now on.
  Result<> verify(const std::string& directory);
  void forget(const std::string& directory);

 private:
  struct Entry {
    std::mutex turn;
    std::map<std::string, std::unique_ptr<FileHash>> files;  // by path
  };
  std::shared_ptr<Entry> entry_of(const std::string& directory);
  static Result<> verify_disks(Entry& entry, const std::string& directory, SnapshotRecord& record);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace firebreak::machine
