// The chain of a tenant: each hash covers the one before and the record's canonical text. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace firebreak::audit {

// 64 hex digits. What stands in front of the first record.
std::string first_hash();
// `previous` is hex as well.
std::string next_hash(std::string_view previous, std::string_view canonical);

// Where a chain ends.
struct Head {
  std::uint64_t n = 0;  // 0: it has no record
  std::string hash = first_hash();
  core::Time at{};
  friend bool operator==(const Head&, const Head&) = default;
};

}  // namespace firebreak::audit
