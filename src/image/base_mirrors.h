// Where apt and pip look for packages, as texts of the files that say so. Pure functions; any
// thread.
#pragma once

#include <string>

#include "base/result.h"

namespace firebreak::image {

// Addresses; empty: as the base has it.
struct Mirrors {
  std::string apt;
  std::string apt_security;
  std::string pip;
  friend bool operator==(const Mirrors&, const Mirrors&) = default;
};

// Code::invalid names the option.
Result<> check_mirrors(const Mirrors& mirrors);

// The lines of sources.list with other addresses.
std::string with_mirrors(const std::string& sources, const Mirrors& mirrors);

// /etc/pip.conf: an address or none, and a bundle of certificates or none.
std::string pip_config(const std::string& index, const std::string& bundle);

}  // namespace firebreak::image
