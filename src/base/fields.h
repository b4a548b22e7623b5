// What a JSON object of a request may hold, as a table. From the same table come the checks, the
// API's document and what the pages are compared with. Values; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace firebreak {

struct Field {
  std::string_view name;
  std::string_view type;  // as in JSON Schema; more than one with '|'
  std::string_view about;
  bool required = false;
  bool many = false;             // a query value that may be repeated
  std::string_view of = {};      // type of an array's elements, or of an object's values
  std::vector<Field> members{};  // of an object that has just these, or of an array's objects
  std::uint64_t least = 0;       // of an integer
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::string_view> choices{};  // of a text; none: any text
};
using Fields = std::vector<Field>;

// An integer from `least` to `most`, both included.
Field within(Field field, std::uint64_t least, std::uint64_t most);
Field one_of(Field field, std::vector<std::string_view> choices);

std::vector<std::string_view> names_of(const Fields& fields);

// What makes a text or a number wrong for the field ("must be 1 to 64"); empty: nothing.
std::string why_not(const Field& field, std::uint64_t number);
std::string why_not(const Field& field, std::string_view text);

// Unknown, missing and wrong members, also inside; `path` ends with a dot ("idle."). null is as
// good as absent. The error names the member, and what was probably meant.
Result<> check_object(const json::object& object, const Fields& fields,
                      const std::string& path = "");

}  // namespace firebreak
