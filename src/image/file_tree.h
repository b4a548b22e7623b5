// Files of an OCI layout, wherever they lie: in a build context, in a directory of the host, or in
// an archive in either. Values and read-only objects; blocking reads, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "image/build_context.h"

namespace firebreak::image {

// A run of bytes of an open file.
struct FileSpan {
  std::shared_ptr<const UniqueFd> file;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  // Shorter only at the end of the span.
  Result<std::string> read(std::uint64_t from, std::size_t want) const;
  // All of it; Code::exhausted if it has more than `limit` bytes.
  Result<std::string> read_all(std::size_t limit) const;
};

class FileTree {
 public:
  FileTree() = default;
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;
  virtual ~FileTree() = default;
  // Of a regular file; Code::not_found. `path` is relative and clean.
  virtual Result<FileSpan> open(const std::string& path) const = 0;
};

// A directory of the context.
class ContextTree final : public FileTree {
 public:
  ContextTree(std::shared_ptr<const BuildContext> context, std::string directory)
      : context_(std::move(context)), directory_(std::move(directory)) {}
  Result<FileSpan> open(const std::string& path) const override;

 private:
  std::shared_ptr<const BuildContext> context_;
  std::string directory_;
};

// A directory of the host, which its operator named.
class DiskTree final : public FileTree {
 public:
  explicit DiskTree(std::string directory) : directory_(std::move(directory)) {}
  Result<FileSpan> open(const std::string& path) const override;

 private:
  std::string directory_;
};

// What is in a tar archive. The archive is read once, for where its files lie.
class ArchiveTree final : public FileTree {
 public:
  static Result<std::unique_ptr<ArchiveTree>> read(FileSpan archive);
  Result<FileSpan> open(const std::string& path) const override;

 private:
  struct Member {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  explicit ArchiveTree(FileSpan archive) : archive_(std::move(archive)) {}

  FileSpan archive_;
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace firebreak::image
