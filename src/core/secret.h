// A secret of a tenant, as it is kept: its value is sealed and nobody gets it back. Values.
#pragma once

#include <string>

#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::core {

inline constexpr std::size_t kMostSecrets = 1000;  // of a tenant

struct Secret {
  TenantId tenant;
  std::string name;
  std::string sealed;
  Time set{};
  friend bool operator==(const Secret&, const Secret&) = default;
};

}  // namespace firebreak::core
