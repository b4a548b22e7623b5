// The SHA-256 of a file that seldom changes: read again only when the file is another one, or was
// written since. Owned by whoever asks; blocking; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "machine/hash.h"

namespace firebreak::machine {

class FileHash {
 public:
  // How a file's content becomes a hash.
  using Read = std::function<Result<std::string>(const std::string& path)>;
  explicit FileHash(std::string path, Read read = sha256_file)
      : path_(std::move(path)), read_(std::move(read)) {}

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
  const Read read_;
  std::mutex mutex_;
  std::optional<Stamp> known_;
  std::string hash_;
};

}  // namespace firebreak::machine
