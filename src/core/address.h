// Addresses of IPv4 and IPv6, address blocks, and what kind of place an address is: the ground of
// every egress decision. Values; pure.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::core {

struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 uses the first four, the rest is 0

  int bits() const { return v6 ? 128 : 32; }
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};
// No zones, no ports, no brackets, no shorthand for IPv4.
std::optional<IpAddress> parse_address(std::string_view text);
std::string to_string(const IpAddress& address);

struct Cidr {
  IpAddress base;           // bits below the prefix are 0
  std::uint8_t prefix = 0;  // 0..32 or 0..128

  bool contains(const IpAddress& address) const;
  bool contains(const Cidr& other) const;
  IpAddress last() const;
  friend auto operator<=>(const Cidr&, const Cidr&) = default;
};
// "10.0.0.0/8"; a lone address is a block of one. Host bits that are set are refused, with the
// block that was probably meant.
Result<Cidr> parse_cidr(std::string_view text);
std::string to_string(const Cidr& block);

// What kind of place an address is, whoever asks.
enum class AddressKind {
  global,    // a policy may open it by any rule
  local,     // private, shared or otherwise not global: only a CIDR rule inside the range opens it
  metadata,  // of a cloud, at an address that is not link-local: only a rule for that very address
  never,     // no rule opens it
};
enum class NeverKind {
  unspecified,
  loopback,
  link_local,
  multicast,
  broadcast,
  reserved,
  embedded,  // IPv6 that carries an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo
};

struct SpecialBlock {
  Cidr block;
  AddressKind kind;
  NeverKind never;  // of kind never
};
// All blocks that are not global. Blocks nest: the smallest one around an address decides.
std::span<const SpecialBlock> special_blocks();
// nullptr: global.
const SpecialBlock* special_block_of(const IpAddress& address);
AddressKind kind_of(const IpAddress& address);
// Of an allow rule: which kind of addresses it opens. It never opens those of another kind, so
// 0.0.0.0/0 does not open 10.0.0.0/8, nor fc00::/7 a metadata address in it.
AddressKind kind_of(const Cidr& block);

}  // namespace firebreak::core
