// Addresses as tests write them.
#pragma once

#include <string_view>

#include "core/address.h"

namespace firebreak::egress {

inline core::IpAddress ip(std::string_view text) {
  return core::parse_address(text).value();
}

}  // namespace firebreak::egress
