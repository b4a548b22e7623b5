#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace firebreak {
namespace {

enum class Kind { character, wrong, cut };  // cut: the text ends inside a character

struct Step {
  Kind kind = Kind::character;
  std::size_t size = 1;
  char32_t code = 0;
};

std::size_t length_by(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Longer forms than needed, surrogates and what is beyond Unicode are told by the second byte.
bool may_be_second(std::uint8_t lead, std::uint8_t byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0;
    case 0xED:
      return byte < 0xA0;
    case 0xF0:
      return byte >= 0x90;
    case 0xF4:
      return byte < 0x90;
    default:
      return true;
  }
}

// The first character of a text that is not empty.
Step step(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text.front());
  const std::size_t length = length_by(lead);
  if (length == 0) return {.kind = Kind::wrong};
  if (length == 1) return {.code = lead};
  char32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.kind = Kind::cut, .size = i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80 || (i == 1 && !may_be_second(lead, byte)))
      return {.kind = Kind::wrong};
    code = (code << 6) | (byte & 0x3F);
  }
  return {.size = length, .code = code};
}

bool is_safe(char32_t code) {
  struct Range {
    char32_t first, last;
  };
  // Controls; marks and overrides of direction; separators of lines and paragraphs.
  constexpr std::array<Range, 6> kUnsafe{{{0x00, 0x1F},
                                          {0x7F, 0x9F},
                                          {0x061C, 0x061C},
                                          {0x200E, 0x200F},
                                          {0x2028, 0x202E},
                                          {0x2066, 0x2069}}};
  for (const Range& range : kUnsafe)
    if (code >= range.first && code <= range.last) return false;
  return true;
}

// Nothing that is escaped lies beyond U+FFFF.
std::string hex(std::uint32_t value, int digits) {
  std::string out;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[(value >> shift) & 15];
  return out;
}

std::string escaped(const Step& at, char first) {
  if (at.kind == Kind::character) {
    switch (at.code) {
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      default:
        break;
    }
    if (at.code > 0x7F) return "\\u" + hex(at.code, 4);
  }
  return "\\x" + hex(static_cast<std::uint8_t>(first), 2);
}

// Most text is plain: as much of it as is goes over at once.
void put_plain(std::string_view& text, std::string& out) {
  const auto end = std::ranges::find_if(text, [](char c) { return c < ' ' || c >= 0x7F; });
  const auto size = static_cast<std::size_t>(end - text.begin());
  out += text.substr(0, size);
  text.remove_prefix(size);
}

// Takes the first character away; a cut one byte by byte.
void put(std::string_view& text, std::string& out) {
  Step at = step(text);
  if (at.kind == Kind::character && is_safe(at.code)) {
    out += text.substr(0, at.size);
  } else {
    if (at.kind != Kind::character) at.size = 1;
    out += escaped(at, text.front());
  }
  text.remove_prefix(at.size);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (put_plain(text, out); !text.empty(); put_plain(text, out)) put(text, out);
  return out;
}

std::string printable_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (put_plain(json, out); !json.empty(); put_plain(json, out)) {
    const Step at = step(json);
    const bool whole = at.kind == Kind::character;
    if (whole && is_safe(at.code)) {
      out += json.substr(0, at.size);
    } else {
      out += "\\u" + (whole ? hex(at.code, 4) : "fffd");
    }
    json.remove_prefix(whole ? at.size : 1);
  }
  return out;
}

std::string PrintableStream::next(std::string_view piece) {
  const std::string whole = std::exchange(held_, {}) + std::string(piece);
  std::string_view text = whole;
  std::string out;
  out.reserve(text.size());
  for (put_plain(text, out); !text.empty(); put_plain(text, out)) {
    const bool returns = text.front() == '\r';
    if (step(text).kind == Kind::cut || text == "\r") {
      held_ = text;
      break;
    }
    if (returns && text[1] == '\n') {
      text.remove_prefix(1);
    } else if (text.front() == '\n' || text.front() == '\t') {
      out += text.front();
      text.remove_prefix(1);
    } else {
      put(text, out);
    }
  }
  return out;
}

std::string PrintableStream::finish() {
  return printable(std::exchange(held_, {}));
}

}  // namespace firebreak
