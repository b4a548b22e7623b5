#include "wire/characters.h"

#include <algorithm>

namespace firebreak::wire {
namespace {

// Bytes that are not UTF-8 become what UTF-8 never holds: the characters U+DC80 to U+DCFF.
constexpr char32_t kRawByte = 0xdc00;

std::size_t sequence_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (size > text.size()) return 1;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, size - 1), continues) ? size : 1;
}

}  // namespace

std::u32string to_characters(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const std::size_t size = sequence_size(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    char32_t character = lead;
    if (size == 1) {
      if (lead >= 0x80) character = kRawByte + lead;
    } else {
      character = lead & (0xffU >> (size + 1));
      for (std::size_t i = 1; i < size; ++i)
        character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
      // An overlong form or a surrogate would not come back as the same bytes.
      const char32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
      if (character < least || character > 0x10ffff || (character & 0x1ff800) == 0xd800) {
        out.push_back(kRawByte + lead);
        text.remove_prefix(1);
        continue;
      }
    }
    out.push_back(character);
    text.remove_prefix(size);
  }
  return out;
}

std::string to_bytes(std::u32string_view text) {
  std::string out;
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      put(c);
    } else if ((c & 0x1ff800) == 0xd800) {
      put(c - kRawByte);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6);
      put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12);
      put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
      put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    }
  }
  return out;
}

}  // namespace firebreak::wire
