// Where apt and pip look for packages, written into copies of the bases that Firebreak comes with.
// Blocks; used while the server starts.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace firebreak::image {

// Addresses; empty: as the base has it.
struct Mirrors {
  std::string apt;
  std::string apt_security;
  std::string pip;
};

// Code::invalid names the option.
Result<> check_mirrors(const Mirrors& mirrors);

// The lines of sources.list with other addresses.
std::string with_mirrors(const std::string& sources, const Mirrors& mirrors);

// The disk itself, or the copy of it in `directory` that has the mirrors, made when it is missing.
Result<std::string> disk_with_mirrors(const std::string& disk, const Mirrors& mirrors,
                                      const std::string& directory);
// Removes copies that are not in `used`.
Result<> prune_disks(const std::string& directory, const std::set<std::string>& used);

}  // namespace firebreak::image
