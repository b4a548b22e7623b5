// Ethernet frames for tests: what a guest may send, checksums included, and what can be told from a
// frame that came out. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "core/egress_decision.h"
#include "egress/ruleset.h"

namespace firebreak::egress {

inline constexpr std::uint8_t kFin = 1;
inline constexpr std::uint8_t kSyn = 2;
inline constexpr std::uint8_t kRst = 4;
inline constexpr std::uint8_t kAck = 16;

struct Packet {
  core::IpAddress source;
  core::IpAddress destination;
  MacAddress source_mac{};
  MacAddress destination_mac{};
  std::uint8_t protocol = core::kTcp;
  std::uint16_t source_port = 40000;  // or the id of an echo request
  std::uint16_t port = 0;
  std::uint8_t tcp_flags = kSyn;
  std::uint32_t sequence = 1000;
  std::uint32_t acknowledged = 0;
  std::uint8_t icmp_type = 0;  // 0: an echo request of the family
  std::size_t payload = 16;
  bool fragmented = false;
  std::size_t fragment_size = 8;  // bytes per piece: too small for a header of TCP
  bool source_routed = false;
};

namespace detail {

inline std::uint32_t sum16(std::string_view data, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i + 1 < data.size(); i += 2) sum += get_u16(data.data() + i);
  if (data.size() % 2 == 1) sum += static_cast<std::uint32_t>(std::uint8_t(data.back())) << 8U;
  return sum;
}

inline std::uint16_t folded(std::uint32_t sum) {
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

inline std::string bytes_of(const core::IpAddress& address) {
  return {reinterpret_cast<const char*>(address.bytes.data()), address.v6 ? 16U : 4U};
}

inline void put_at(std::string& out, std::size_t at, std::uint16_t value) {
  out[at] = static_cast<char>(value >> 8U);
  out[at + 1] = static_cast<char>(value & 0xffU);
}

inline std::uint32_t pseudo_header(const Packet& packet, std::size_t size) {
  std::string pseudo = bytes_of(packet.source) + bytes_of(packet.destination);
  put_u32(pseudo, static_cast<std::uint32_t>(size));
  put_u32(pseudo, packet.protocol);
  return sum16(pseudo);
}

inline std::string transport(const Packet& packet) {
  std::string out;
  std::optional<std::size_t> checksum;
  std::uint32_t sum = 0;
  if (packet.protocol == core::kTcp) {
    put_u16(out, packet.source_port);
    put_u16(out, packet.port);
    put_u32(out, packet.sequence);
    put_u32(out, packet.acknowledged);
    put_u16(out, static_cast<std::uint16_t>(0x5000U | packet.tcp_flags));
    put_u16(out, 65535);
    put_u32(out, 0);
    checksum = 16;
    if ((packet.tcp_flags & kSyn) == 0 || packet.fragmented) out.append(packet.payload, 'x');
  } else if (packet.protocol == core::kUdp) {
    put_u16(out, packet.source_port);
    put_u16(out, packet.port);
    put_u16(out, static_cast<std::uint16_t>(8 + packet.payload));
    put_u16(out, 0);
    checksum = 6;
    out.append(packet.payload, 'x');
  } else if (packet.protocol == (packet.source.v6 ? core::kIcmp6 : core::kIcmp)) {
    const std::uint8_t echo = packet.source.v6 ? 128 : 8;
    out.push_back(static_cast<char>(packet.icmp_type != 0 ? packet.icmp_type : echo));
    out.push_back(0);
    put_u16(out, 0);
    put_u16(out, packet.source_port);
    put_u16(out, 1);
    checksum = 2;
    out.append(packet.payload, 'x');
  } else {
    out.append(packet.payload, 'x');
  }
  if (checksum) {
    if (packet.protocol != core::kIcmp) sum = pseudo_header(packet, out.size());
    put_at(out, *checksum, folded(sum16(out, sum)));
  }
  return out;
}

inline std::string ip4(const Packet& packet, std::string_view body, std::uint16_t fragment) {
  static std::uint16_t ident = 1;
  std::string options;
  if (packet.source_routed) options = std::string("\x83\x07\x04\x08\x08\x08\x08\x00", 8);
  std::string out;
  out.push_back(static_cast<char>(0x45 + options.size() / 4));
  out.push_back(0);
  put_u16(out, static_cast<std::uint16_t>(20 + options.size() + body.size()));
  put_u16(out, (fragment & 0x1fffU) == 0 ? ++ident : ident);
  put_u16(out, fragment);
  out.push_back(64);
  out.push_back(static_cast<char>(packet.protocol));
  put_u16(out, 0);
  out += bytes_of(packet.source) + bytes_of(packet.destination) + options;
  put_at(out, 10, folded(sum16(out)));
  return out.append(body);
}

inline std::string ip6(const Packet& packet, std::string_view body,
                       std::optional<std::uint16_t> fragment) {
  static std::uint32_t ident = 1;
  std::string extension;
  std::uint8_t next = packet.protocol;
  if (packet.source_routed) {  // a routing header with no segments left
    extension.push_back(static_cast<char>(next));
    extension.append(std::string("\x02\x02\x00\x00\x00\x00\x00", 7)).append(16, '\x20');
    next = 43;
  }
  if (fragment) {
    extension.insert(0, 1, static_cast<char>(next));
    std::string rest(1, '\0');
    put_u16(rest, *fragment);
    put_u32(rest, (*fragment & 0xfff8U) == 0 ? ++ident : ident);
    extension.insert(1, rest);
    next = 44;
  }
  std::string out("\x60\x00\x00\x00", 4);
  put_u16(out, static_cast<std::uint16_t>(extension.size() + body.size()));
  out.push_back(static_cast<char>(next));
  out.push_back(static_cast<char>(packet.icmp_type >= 133 ? 255 : 64));
  return out + bytes_of(packet.source) + bytes_of(packet.destination) + extension +
         std::string(body);
}

}  // namespace detail

// One frame, or one per fragment.
inline std::vector<std::string> frames(const Packet& packet) {
  const std::string body = detail::transport(packet);
  const bool v6 = packet.source.v6;
  std::string ethernet(reinterpret_cast<const char*>(packet.destination_mac.data()), 6);
  ethernet.append(reinterpret_cast<const char*>(packet.source_mac.data()), 6);
  put_u16(ethernet, v6 ? 0x86dd : 0x0800);
  if (!packet.fragmented) {
    return {ethernet +
            (v6 ? detail::ip6(packet, body, std::nullopt) : detail::ip4(packet, body, 0))};
  }
  std::vector<std::string> out;
  for (std::size_t at = 0; at < body.size(); at += packet.fragment_size) {
    const std::string piece = body.substr(at, packet.fragment_size);
    const bool more = at + packet.fragment_size < body.size();
    out.push_back(
        ethernet +
        (v6 ? detail::ip6(packet, piece, static_cast<std::uint16_t>(at | (more ? 1U : 0U)))
            : detail::ip4(packet, piece,
                          static_cast<std::uint16_t>(at / 8 | (more ? 0x2000U : 0U)))));
  }
  return out;
}

// What a frame is; of an ICMP error also what it is about.
struct SeenPacket {
  core::IpAddress source;
  core::IpAddress destination;
  std::uint8_t protocol = 0;
  std::uint16_t source_port = 0;
  std::uint16_t port = 0;
  std::uint8_t tcp_flags = 0;
  std::uint8_t icmp_type = 0;
  std::uint8_t icmp_code = 0;
  std::vector<SeenPacket> about;  // one or none

  bool prohibited() const {
    return source.v6 ? protocol == core::kIcmp6 && icmp_type == 1 && icmp_code == 1
                     : protocol == core::kIcmp && icmp_type == 3 && icmp_code == 13;
  }
  bool reset() const { return protocol == core::kTcp && (tcp_flags & kRst) != 0; }
};

inline core::IpAddress address_at(std::string_view data, bool v6) {
  core::IpAddress address;
  address.v6 = v6;
  std::copy_n(data.begin(), v6 ? 16 : 4, address.bytes.begin());
  return address;
}

inline std::optional<SeenPacket> parse_ip(std::string_view data) {
  if (data.size() < 20) return std::nullopt;
  const bool v6 = std::uint8_t(data[0]) >> 4U == 6;
  SeenPacket out;
  std::size_t header = v6 ? 40 : (std::uint8_t(data[0]) & 15U) * 4U;
  if (data.size() < header) return std::nullopt;
  out.protocol = std::uint8_t(data[v6 ? 6 : 9]);
  out.source = address_at(data.substr(v6 ? 8 : 12), v6);
  out.destination = address_at(data.substr(v6 ? 24 : 16), v6);
  if (v6 && out.protocol == 44 && data.size() >= 48) {  // comes out in pieces again
    if ((get_u16(data.data() + 42) & 0xfff8U) != 0) return std::nullopt;
    out.protocol = std::uint8_t(data[40]);
    header = 48;
  }
  if (!v6 && (get_u16(data.data() + 6) & 0x1fffU) != 0) return std::nullopt;
  const std::string_view body = data.substr(header);
  if ((out.protocol == core::kTcp || out.protocol == core::kUdp) && body.size() >= 4) {
    out.source_port = get_u16(body.data());
    out.port = get_u16(body.data() + 2);
    if (out.protocol == core::kTcp && body.size() >= 14) out.tcp_flags = std::uint8_t(body[13]);
  } else if (out.protocol == (v6 ? core::kIcmp6 : core::kIcmp) && body.size() >= 8) {
    out.icmp_type = std::uint8_t(body[0]);
    out.icmp_code = std::uint8_t(body[1]);
    out.source_port = get_u16(body.data() + 4);
    const bool error = v6 ? out.icmp_type < 128 : out.icmp_type == 3;
    if (error) {
      if (auto inner = parse_ip(body.substr(8))) out.about.push_back(*std::move(inner));
    }
  }
  return out;
}

inline std::optional<SeenPacket> parse_frame(std::string_view frame) {
  if (frame.size() < 14) return std::nullopt;
  const std::uint16_t type = get_u16(frame.data() + 12);
  if (type != 0x0800 && type != 0x86dd) return std::nullopt;
  return parse_ip(frame.substr(14));
}

}  // namespace firebreak::egress
