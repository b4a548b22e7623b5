// Zip archives of strangers, read from memory: the central directory is checked whole before any
// content is looked at, and content must be what it says. Stored and deflated entries; nothing
// encrypted, split or overlapping. Any thread; the bytes outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

struct ZipLimits {
  std::size_t max_entries = 100'000;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  // of all contents
  // Contents may be this many times as large as the archive, once they are larger than a little.
  std::uint64_t max_ratio = 200;
  std::uint64_t ratio_counts_from = std::uint64_t{64} << 20;
};

struct ZipEntry {
  enum class Type { file, dir, symlink };
  std::string path;  // any bytes but NUL; no '/' at the end, also of directories
  Type type = Type::file;
  std::uint32_t mode = 0644;  // permission bits
  std::uint64_t size = 0;     // of a symlink: its target is the content
  std::uint64_t packed_size = 0;
  std::uint64_t data_at = 0;
  std::uint32_t crc = 0;
  bool deflated = false;
};

class ZipArchive {
 public:
  // Code::invalid for what is not a whole zip archive, Code::exhausted above a limit.
  static Result<ZipArchive> open(std::string_view bytes, const ZipLimits& limits = {});

  const std::vector<ZipEntry>& entries() const { return entries_; }
  using Sink = std::function<Result<>(std::string_view piece)>;
  // In total entry.size bytes; the error comes after the pieces that were good.
  Result<> extract(const ZipEntry& entry, const Sink& sink) const;

 private:
  struct Directory {
    std::uint64_t at = 0;
    std::uint64_t size = 0;
    std::uint64_t count = 0;
  };
  struct Extent {
    std::uint64_t begin;
    std::uint64_t end;
  };

  explicit ZipArchive(std::string_view bytes) : bytes_(bytes) {}
  Result<Directory> find_directory() const;
  bool has_directory64(std::uint64_t end_at) const;
  Result<Directory> read_directory64(std::uint64_t end_at) const;
  Result<> read_entry(std::uint64_t& at, const Directory& directory, Extent& extent);
  Result<> read_local(ZipEntry& entry, std::string_view name, std::uint16_t method,
                      std::uint64_t header_at, std::uint64_t directory_at) const;
  Result<> check_sizes(const ZipLimits& limits) const;

  std::string_view bytes_;
  std::vector<ZipEntry> entries_;
};

}  // namespace firebreak::wire
