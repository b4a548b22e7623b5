// The tables, as numbered migrations: applied in order, each in one transaction, its checksum
// recorded. One that was released is never edited; a change is a new number.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "store/sqlite/connection.h"

namespace firebreak::store {

struct Migration {
  std::string_view name;
  std::string_view sql;
};

// The schema of this program: migration N (from 1) is at N - 1.
std::span<const Migration> migrations();

// The version it has (0: empty), found without changing it. Code::corrupt for one of another
// program, of a newer version, or whose applied migrations differ from `known`.
Result<std::int64_t> check_version(Connection& db, std::span<const Migration> known);
// Brings the database to the last of `known`, after that check.
Result<> migrate(Connection& db, std::span<const Migration> known);

}  // namespace firebreak::store
