// Words that people write: the one that was probably meant, lists of them, NAME=VALUE. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak {

// At most two letters off (one of a short word), or begun with it; empty when none is near.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known);

// "a, b, c"
std::string join_words(const std::vector<std::string_view>& words);

struct NameValue {
  std::string name;
  std::string value;
};
// "NAME=VALUE" at its first '='; nullopt without one, or with nothing before it.
std::optional<NameValue> split_pair(std::string_view text);
// The same; the error says what must be NAME=VALUE.
Result<NameValue> parse_pair(std::string_view text, std::string_view what);

}  // namespace firebreak
