// Variables in the words of a Dockerfile: $name, ${name}, the modifiers of ${name...}, quotes and
// escapes. Pure functions; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

// nullopt: not set, which is not the same as empty.
using VariableLookup = std::function<std::optional<std::string>(std::string_view name)>;

struct ExpandRules {
  char escape = '\\';
  bool quotes = true;  // false in a here-document: quotes are themselves
  std::size_t max_bytes = std::size_t{128} * 1024;  // of the result
};

// Quotes removed, escapes resolved, variables replaced. The error says what is wrong in the text,
// not where the text stands.
Result<std::string> expand(std::string_view text, const VariableLookup& lookup,
                           const ExpandRules& rules = {});
// The same, and then cut at blanks that are not quoted: a variable may hold several words.
Result<std::vector<std::string>> expand_words(std::string_view text, const VariableLookup& lookup,
                                              const ExpandRules& rules = {});
// Whether expand() could ever work.
Result<> check_expansion(std::string_view text, const ExpandRules& rules = {});

}  // namespace firebreak::wire
