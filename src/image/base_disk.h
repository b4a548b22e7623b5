// What a base disk is, for lists: the release in it, a digest of its content, its size. Blocks.
#pragma once

#include <cstdint>
#include <string>

#include "base/deadline.h"
#include "base/result.h"

namespace firebreak::image {

struct BaseDisk {
  std::string version;      // of Debian: "12.12"
  std::string digest;       // "sha256:..." of what is not zero, and where: copies have the same
  std::uint64_t bytes = 0;  // that hold something
};

Result<BaseDisk> inspect_base_disk(const std::string& disk, Deadline deadline);

}  // namespace firebreak::image
