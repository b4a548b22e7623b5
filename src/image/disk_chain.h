// The disk of a machine as a build sees it: what is on it, and a name for exactly that. Value.
#pragma once

#include <string>
#include <vector>

#include "machine/engine.h"

namespace firebreak::image {

struct DiskChain {
  std::string base;
  std::vector<std::string> layers;
  // Exactly these files: two chains with the same one hold the same bytes.
  std::string id;

  machine::DiskContent content() const { return {.base = base, .layers = layers}; }
  friend bool operator==(const DiskChain&, const DiskChain&) = default;
};

}  // namespace firebreak::image
