// The RAM of a snapshot: a sealed memfd that every clone maps privately (copy on write), and its
// hash-checked copy on disk. Owned by the loaded snapshot. Blocking functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::machine {

class RamImage {
 public:
  // An empty, unsealed one for a machine that will become a snapshot.
  static Result<RamImage> create(std::uint64_t size);
  // From a copy on disk; Code::corrupt if its content does not have this hash. The result is
  // sealed.
  static Result<RamImage> load(const std::string& path, std::uint64_t size,
                               const std::string& sha256);
  // From a descriptor somebody else kept for us; Code::corrupt unless it is a sealed memfd of this
  // size.
  static Result<RamImage> adopt(UniqueFd fd, std::uint64_t size);

  // The same content, unsealed.
  Result<RamImage> copy() const;
  // No more writes, by anybody, and no small holes: what clones touch there would be charged to
  // them twice. Fails while a shared mapping is left (the machine must be gone).
  Result<> seal();
  // A descriptor that only reads, for a clone.
  Result<UniqueFd> reader() const;
  // Writes a sparse copy and returns the hash over its extents. Synced to disk.
  Result<std::string> save(const std::string& path) const;

  int fd() const { return fd_.get(); }
  std::uint64_t size() const { return size_; }
  std::uint64_t allocated_bytes() const;

 private:
  RamImage(UniqueFd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}
  Result<> add_seals();
  // Every block is a hole or wholly allocated, as in one that was loaded.
  Result<> settle();
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

// SHA-256 of what a file holds, with where it holds it: holes and blocks of zeros are passed over.
// As save() and load() reckon it. Blocking.
Result<std::string> sparse_hash(const std::string& path);

}  // namespace firebreak::machine
