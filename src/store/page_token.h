// Where a listing goes on, as a token the caller cannot use for another listing or filter. The same
// for every engine; it holds a position, never a right. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/clock.h"

namespace firebreak::store {

// The last row of a page; the next one begins after it. Rows go from new to old.
struct Position {
  core::Time time{};
  std::string id;
  friend bool operator==(const Position&, const Position&) = default;
};

// `scope`: the listing, the tenant and every part of the filter, in a fixed order.
std::string make_page_token(const std::vector<std::string>& scope, const Position& last);
// An empty token is the beginning. Code::invalid for a token of another scope or none of ours.
Result<Position> read_page_token(const std::vector<std::string>& scope, const std::string& token);

// 1..1000.
Result<> check_page_size(std::uint32_t size);

}  // namespace firebreak::store
