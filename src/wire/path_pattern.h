// Patterns for paths, as .dockerignore files and the sources of COPY have them, and paths made
// plain. Matching takes time linear in path times pattern, whatever either holds. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

// Without "." and empty components, ".." resolved where it can be; "." if nothing is left.
std::string clean_path(std::string_view path);

class PathPattern {
 public:
  // Both know '*', '?', '[a-z]', '[^a-z]' and '\', none of which matches a '/'.
  enum class Stars {
    within_name,   // '**' is only two '*'
    across_names,  // '**' matches any number of directories
  };
  static constexpr std::size_t kMaxPattern = 512;

  // `text` is a clean path. Code::invalid for a bracket or an escape that is not complete.
  static Result<PathPattern> parse(std::string_view text, Stars stars);

  bool matches(std::string_view path) const;
  // The path, or a directory that it lies in.
  bool matches_it_or_parent(std::string_view path) const;
  // No special character: it matches one path only.
  bool is_plain() const { return plain_; }
  // Whether a text has special characters, good or bad.
  static bool is_pattern(std::string_view text);

 private:
  enum class Kind : std::uint8_t {
    literal,
    any,          // '?'
    set,          // '[...]'
    star,         // '*'
    deep,         // '**/': nothing, or anything up to a '/'
    deep_inside,  // follows deep: where it is while it takes something
    rest,         // '**' at an end
  };
  struct Token {
    Kind kind = Kind::literal;
    char32_t character = 0;
    bool negated = false;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool takes(char32_t c) const;
  };

  Result<> parse_set(const std::u32string& text, std::size_t& at);
  void parse_double_star(const std::u32string& text, std::size_t& at);
  // Marks a place in the pattern, and those behind it that need nothing of the path.
  void enter(std::vector<char>& places, std::size_t place) const;
  // Calls `accepted(at)` for each end of a match that begins at the start of the path, until it
  // returns false.
  template <class Accepted>
  void run(const std::u32string& path, Accepted accepted) const;

  std::vector<Token> tokens_;
  bool plain_ = true;
  std::string text_;  // of a plain one
};

}  // namespace firebreak::wire
