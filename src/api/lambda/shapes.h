// Inputs of operations as tables: types, required members, lengths, ranges, patterns. One check
// walks a table and the JSON that came, and tells everything that is wrong in AWS's words.
// Constants and pure functions; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace firebreak::api::lambda {

struct Shape;

enum class In { body, label, query, query_list };

struct Member {
  std::string_view name;
  const Shape* shape;
  bool required = false;
  In in = In::body;
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// A string's text must have only such characters, or such a form.
struct Pattern {
  bool (*fits)(std::string_view text) = nullptr;
  std::string_view told;  // the regular expression AWS shows
};

struct Shape {
  // A union has exactly one of its members.
  enum class Kind { string, integer, boolean, list, map, structure, tagged_union };
  Kind kind = Kind::string;
  std::int64_t least = 0;  // length, value or size
  std::int64_t most = kNoLimit;
  Pattern pattern{};
  std::span<const std::string_view> values{};  // of an enum
  const Shape* key = nullptr;                  // of a map
  const Shape* element = nullptr;              // of a list or map
  std::span<const Member> members{};
};

// "Value at 'hooks.port' failed to satisfy constraint: Member must ...", for each thing wrong, up
// to a dozen. Members that the table does not know are passed over, and null is absent.
std::vector<std::string> violations(std::span<const Member> members, const json::object& input);
// "2 validation errors detected: ...; ..."
std::string validation_message(const std::vector<std::string>& violations);

// Characters, not bytes.
std::size_t text_length(std::string_view utf8);

}  // namespace firebreak::api::lambda
