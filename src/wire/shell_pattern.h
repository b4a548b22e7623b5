// Patterns of ${name#pattern} and its relatives: '*' is any text, '?' any character, the escape
// character takes the next one as it is. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

class ShellPattern {
 public:
  enum class Match { shortest, longest };
  // A pattern and the text it works on; what is longer is refused, so that no pattern takes long.
  static constexpr std::size_t kMaxPattern = 256;
  static constexpr std::size_t kMaxText = 4096;
  static constexpr std::size_t kMaxResult = std::size_t{128} * 1024;

  static Result<ShellPattern> parse(std::string_view text, char escape);

  Result<std::string> without_prefix(std::string_view text, Match match) const;
  Result<std::string> without_suffix(std::string_view text, Match match) const;
  // The first of the longest matches, or each one after the other. Nothing matches no text at all.
  Result<std::string> replace(std::string_view text, std::string_view with, bool all) const;

 private:
  struct Item {
    char32_t character = 0;
    bool any = false;
  };
  using Run = std::vector<Item>;  // what stands between two stars

  static bool fits(const std::u32string& text, std::size_t at, const Run& run);
  static std::size_t find(const std::u32string& text, std::size_t from, const Run& run);
  static std::size_t find_last(const std::u32string& text, std::size_t from, const Run& run);
  // Where a match that begins at `from` ends, npos if none does.
  std::size_t end_of_match(const std::u32string& text, std::size_t from, Match match) const;

  std::vector<Run> runs_{1};
};

}  // namespace firebreak::wire
