#include "core/address.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <arpa/inet.h>

#include "base/text.h"

namespace firebreak::core {

namespace {

std::uint8_t mask_of_byte(int prefix, std::size_t index) {
  const int bits = std::clamp(prefix - static_cast<int>(index) * 8, 0, 8);
  return static_cast<std::uint8_t>(0xff00U >> static_cast<unsigned>(bits));
}

IpAddress masked(IpAddress address, int prefix) {
  for (std::size_t i = 0; i < address.bytes.size(); i++) {
    address.bytes[i] &= mask_of_byte(prefix, i);
  }
  return address;
}

SpecialBlock special(std::string_view text, AddressKind kind,
                     NeverKind never = NeverKind::reserved) {
  return SpecialBlock{parse_cidr(text).value(), kind, never};
}

std::vector<SpecialBlock> make_special_blocks() {
  using enum AddressKind;
  return {
      special("0.0.0.0/8", never, NeverKind::unspecified),
      special("127.0.0.0/8", never, NeverKind::loopback),
      special("169.254.0.0/16", never, NeverKind::link_local),
      special("192.88.99.0/24", never, NeverKind::embedded),  // relays of 6to4
      special("224.0.0.0/4", never, NeverKind::multicast),
      special("240.0.0.0/4", never, NeverKind::reserved),
      special("255.255.255.255", never, NeverKind::broadcast),
      special("10.0.0.0/8", local),
      special("100.64.0.0/10", local),
      special("172.16.0.0/12", local),
      special("192.0.0.0/24", local),
      special("192.168.0.0/16", local),
      special("198.18.0.0/15", local),
      special("100.100.100.200", metadata),
      special("168.63.129.16", metadata),
      special("192.0.0.192", metadata),

      special("::/8", never, NeverKind::reserved),
      special("::/96", never, NeverKind::embedded),
      special("::", never, NeverKind::unspecified),
      special("::1", never, NeverKind::loopback),
      special("::ffff:0:0/96", never, NeverKind::embedded),
      special("::ffff:0:0:0/96", never, NeverKind::embedded),
      special("64:ff9b::/96", never, NeverKind::embedded),
      special("64:ff9b:1::/48", never, NeverKind::embedded),
      special("100::/64", never, NeverKind::reserved),
      special("2001::/32", never, NeverKind::embedded),
      special("2002::/16", never, NeverKind::embedded),
      special("fe80::/10", never, NeverKind::link_local),
      special("fec0::/10", never, NeverKind::reserved),
      special("ff00::/8", never, NeverKind::multicast),
      special("fc00::/7", local),
      special("fd00:ec2::254", metadata),
      special("fd20:ce::254", metadata),
  };
}

template <class Place>
const SpecialBlock* smallest_around(const Place& place) {
  const SpecialBlock* found = nullptr;
  for (const SpecialBlock& entry : special_blocks()) {
    if (!entry.block.contains(place)) continue;
    if (found == nullptr || entry.block.prefix > found->block.prefix) found = &entry;
  }
  return found;
}

}  // namespace

std::optional<IpAddress> parse_address(std::string_view text) {
  IpAddress address;
  address.v6 = text.contains(':');
  const std::string copy(text);
  if (copy.contains('\0')) return std::nullopt;
  if (inet_pton(address.v6 ? AF_INET6 : AF_INET, copy.c_str(), address.bytes.data()) != 1) {
    return std::nullopt;
  }
  return address;
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text.data(), text.size());
  return text.data();
}

bool Cidr::contains(const IpAddress& address) const {
  return address.v6 == base.v6 && masked(address, prefix) == base;
}

bool Cidr::contains(const Cidr& other) const {
  return other.prefix >= prefix && contains(other.base);
}

IpAddress Cidr::last() const {
  IpAddress address = base;
  const std::size_t size = base.v6 ? 16 : 4;
  for (std::size_t i = 0; i < size; i++) {
    address.bytes[i] |= static_cast<std::uint8_t>(~mask_of_byte(prefix, i));
  }
  return address;
}

Result<Cidr> parse_cidr(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::optional<IpAddress> base = parse_address(text.substr(0, slash));
  std::optional<std::uint64_t> prefix;
  if (base && slash != std::string_view::npos) {
    prefix = parse_u64(text.substr(slash + 1));
  } else if (base) {
    prefix = base->bits();
  }
  if (!base || !prefix || *prefix > static_cast<std::uint64_t>(base->bits())) {
    return fail(Code::invalid, "is not an address block",
                Repair{"write one like 203.0.113.0/24 or 2001:db8::/32"});
  }
  const Cidr block{masked(*base, static_cast<int>(*prefix)), static_cast<std::uint8_t>(*prefix)};
  if (block.base != *base) {
    return fail(Code::invalid, "has bits set behind its prefix",
                Repair{"write " + to_string(block)});
  }
  return block;
}

std::string to_string(const Cidr& block) {
  return to_string(block.base) + "/" + std::to_string(block.prefix);
}

std::span<const SpecialBlock> special_blocks() {
  static const std::vector<SpecialBlock> blocks = make_special_blocks();
  return blocks;
}

const SpecialBlock* special_block_of(const IpAddress& address) {
  return smallest_around(address);
}

AddressKind kind_of(const IpAddress& address) {
  const SpecialBlock* found = smallest_around(address);
  return found == nullptr ? AddressKind::global : found->kind;
}

AddressKind kind_of(const Cidr& block) {
  const SpecialBlock* found = smallest_around(block);
  return found == nullptr ? AddressKind::global : found->kind;
}

}  // namespace firebreak::core
