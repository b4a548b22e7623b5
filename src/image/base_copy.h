// Copies of the bases that Firebreak comes with, changed as the operator says: where apt and pip
// look for packages, which certificates are trusted. Blocks; used while the server starts.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "image/base_mirrors.h"
#include "image/guest_ca.h"

namespace firebreak::image {

struct BaseChanges {
  Mirrors mirrors;
  std::optional<GuestCa> ca;
};

// The disk itself, if it is as it should be, or the copy of it in `directory` that has the changes,
// made when it is missing.
Result<std::string> changed_disk(const std::string& disk, const BaseChanges& changes,
                                 const std::string& directory);
// The certificates that programs on the disk trust; empty if it has no such file.
Result<std::string> bundle_in(const std::string& disk);
// Removes copies that are not in `used`.
Result<> prune_disks(const std::string& directory, const std::set<std::string>& used);

}  // namespace firebreak::image
