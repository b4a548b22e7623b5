// File operations inside the tenant's root, as docs/agent-protocol.md "data: files" offers them.
// Blocking: for worker threads. The tenant may change its files at any moment; no path, link or
// race leads out of the root.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "base/rooted.h"

namespace firebreak::guest {

enum class FileType { file, dir, symlink, fifo, socket, char_device, block_device };

struct FileInfo {
  std::string name;  // last component, raw bytes
  FileType type = FileType::file;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;  // permission bits, 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t mtime_ns = 0;
  std::optional<std::string> target;  // of a symlink, raw bytes
};

// `name` and `target` percent-encoded.
json::object to_json(const FileInfo& info);

struct WriteOptions {
  std::string path;
  std::optional<mode_t> mode;  // otherwise the old file's, or 0644
  bool append = false;
  std::optional<std::uint64_t> offset;  // write in place from here
  std::optional<Owner> owner;           // otherwise the old file's, or root
  bool parents = false;                 // make missing directories
};

// One file being written. Without append or offset the old file stays until commit().
class FileWriter {
 public:
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  Result<> write(std::string_view bytes);
  Result<> commit();  // once, after the last write

 private:
  friend class TenantFiles;
  FileWriter() = default;

  UniqueFd in_place_;
  std::optional<std::uint64_t> offset_;
  Place place_;  // outlives fresh_, which borrows the parent
  std::unique_ptr<NewFile> fresh_;
  std::optional<Owner> owner_;
  mode_t mode_ = 0644;
};

// Reads a directory in batches, in the order of the file system.
class DirLister {
 public:
  // Replaces `batch` by the next entries, at most `limit`; false when there were none left.
  Result<bool> next(std::vector<FileInfo>& batch, std::size_t limit = 256);

 private:
  friend class TenantFiles;
  explicit DirLister(DirStream dir) : dir_(std::move(dir)) {}
  DirStream dir_;
};

class TenantFiles {
 public:
  // `root_fd` is borrowed and outlives this.
  explicit TenantFiles(int root_fd) : root_(root_fd) {}

  Result<FileInfo> stat(const std::string& path, bool follow) const;
  // Regular files only: Code::conflict for all else.
  Result<UniqueFd> open_read(const std::string& path) const;
  Result<std::unique_ptr<FileWriter>> open_write(const WriteOptions& options) const;
  Result<DirLister> list(const std::string& path) const;
  // With `parents`, an existing directory is fine.
  Result<> mkdir(const std::string& path, mode_t mode, bool parents) const;
  // A link itself, never what it leads to. A directory that is not empty needs `recursive`.
  Result<> remove(const std::string& path, bool recursive) const;
  // As rename(2): replaces a file, or an empty directory by a directory.
  Result<> rename(const std::string& from, const std::string& to) const;

 private:
  Result<UniqueFd> open_in_place(const WriteOptions& options) const;
  Result<Place> place_to_write(std::string path) const;

  int root_;
};

}  // namespace firebreak::guest
