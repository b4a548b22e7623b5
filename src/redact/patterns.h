// The byte strings in which a secret can leave a guest: as it is, and in the encodings that
// programs use without thinking. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::redact {

// What must not leave. Shorter values would be found everywhere, longer ones cost memory.
inline constexpr std::size_t kShortestSecret = 6;
inline constexpr std::size_t kLongestSecret = 8192;
// Of a byte string of a matcher.
inline constexpr std::size_t kShortestPattern = 4;
// Of all byte strings of one matcher together.
inline constexpr std::size_t kMostPatternBytes = 8UL << 20;

struct Secret {
  std::string name;  // shown in its place: [redacted:NAME]
  std::string value;
};

// What finding a pattern means.
enum class Meaning : std::uint8_t {
  secret,  // these bytes
  opens,   // these bytes and what follows, until a pattern that closes
  closes,  // the end of what was opened; nothing by itself
};

struct Pattern {
  std::string bytes;
  std::uint32_t name = 0;  // index into the names of a PatternSet
  Meaning meaning = Meaning::secret;
};

struct PatternSet {
  std::vector<std::string> names;
  std::vector<Pattern> patterns;
};

// The value itself; in base64 with both alphabets, wherever it begins within a group of three; in
// hex; percent-encoded; escaped for JSON. Forms that are equal are there once.
std::vector<std::string> forms_of(std::string_view value);

// Code::invalid for a secret that is too short, too long or has no printable name; Code::exhausted
// for more than kMostPatternBytes. `private_keys`: PEM blocks of private keys, too.
Result<PatternSet> patterns_of(const std::vector<Secret>& secrets, bool private_keys);

}  // namespace firebreak::redact
