// The SHA-256 of a file that seldom changes: read again only when the file is another one, or was
// written since. Owned by whoever asks; blocking; any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace firebreak::machine {

class FileHash {
 public:
  explicit FileHash(std::string path) : path_(std::move(path)) {}

  // In hexadecimal.
  Result<std::string> get();

 private:
  // What tells two contents of a path apart without reading them.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t changed_s = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Result<Stamp> stamp() const;

  const std::string path_;
  std::mutex mutex_;
  std::optional<Stamp> known_;
  std::string hash_;
};

}  // namespace firebreak::machine
