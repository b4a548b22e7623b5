// Small text codecs: hex, percent-encoding, big-endian integers. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace firebreak {

std::string to_hex(std::span<const std::byte> data);
// Even number of hex digits, nothing else.
std::optional<std::vector<std::byte>> from_hex(std::string_view text);

// Everything but unreserved characters (and those in `keep`) becomes %XX.
std::string percent_encode(std::string_view raw, std::string_view keep = "/");
// nullopt for a '%' that is not followed by two hex digits. '+' is itself.
std::optional<std::string> percent_decode(std::string_view text);

// Decimal digits only, no sign, no overflow.
std::optional<std::uint64_t> parse_u64(std::string_view text);

void put_u16(std::string& out, std::uint16_t value);
void put_u32(std::string& out, std::uint32_t value);
void put_u64(std::string& out, std::uint64_t value);
// The caller has checked the size.
std::uint16_t get_u16(const char* at);
std::uint32_t get_u32(const char* at);
std::uint64_t get_u64(const char* at);

std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace firebreak
