#include "base/text.h"

#include <charconv>

namespace firebreak {
namespace {

constexpr std::string_view kHexLower = "0123456789abcdef";
constexpr std::string_view kHexUpper = "0123456789ABCDEF";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

template <class T>
void put_big_endian(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((value >> shift) & 0xff));
}

template <class T>
T get_big_endian(const char* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8) | static_cast<unsigned char>(at[i]);
  return value;
}

}  // namespace

std::string to_hex(std::span<const std::byte> data) {
  std::string out;
  out.reserve(data.size() * 2);
  for (std::byte b : data) {
    out.push_back(kHexLower[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kHexLower[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return out;
}

std::string percent_encode(std::string_view raw, std::string_view keep) {
  std::string out;
  out.reserve(raw.size());
  for (char c : raw) {
    if (unreserved(c) || keep.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHexUpper[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHexUpper[static_cast<unsigned char>(c) & 15]);
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [at, ec] = std::from_chars(text.data(), end, value);
  if (text.empty() || ec != std::errc() || at != end) return std::nullopt;
  return value;
}

void put_u16(std::string& out, std::uint16_t value) {
  put_big_endian(out, value);
}
void put_u32(std::string& out, std::uint32_t value) {
  put_big_endian(out, value);
}
void put_u64(std::string& out, std::uint64_t value) {
  put_big_endian(out, value);
}
std::uint16_t get_u16(const char* at) {
  return get_big_endian<std::uint16_t>(at);
}
std::uint32_t get_u32(const char* at) {
  return get_big_endian<std::uint32_t>(at);
}
std::uint64_t get_u64(const char* at) {
  return get_big_endian<std::uint64_t>(at);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace firebreak
