// The disk of a machine as a build sees it: an immutable base and immutable layers on top. Value.
#pragma once

#include <string>
#include <vector>

namespace firebreak::image {

struct DiskChain {
  std::string base;                 // raw ext4
  std::vector<std::string> layers;  // qcow2 files, bottom first
  // Exactly these files: two chains with the same one hold the same bytes.
  std::string id;
  friend bool operator==(const DiskChain&, const DiskChain&) = default;
};

}  // namespace firebreak::image
