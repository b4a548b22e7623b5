// What the kernel says about a namespace's traffic: packets that rules logged (NFLOG) and
// connections that ended (conntrack), read from netlink datagrams without I/O. The kernel is
// trusted for the frame; the packet inside was written by the guest. Values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/address.h"

namespace firebreak::egress {

// The head of an IP packet. Ports are those of TCP and UDP; 0: other protocols, later fragments,
// and packets cut before them.
struct PacketHead {
  core::IpAddress source;
  core::IpAddress destination;
  std::uint8_t protocol = 0;  // as in the IP header, behind IPv6's extension headers
  std::uint16_t source_port = 0;
  std::uint16_t port = 0;
  friend auto operator<=>(const PacketHead&, const PacketHead&) = default;
};
// nullopt: not an IP packet, or cut before its addresses are complete.
std::optional<PacketHead> parse_packet(std::string_view packet);

struct LoggedPacket {
  std::string prefix;
  std::uint32_t mark = 0;
  PacketHead head;
  friend bool operator==(const LoggedPacket&, const LoggedPacket&) = default;
};

// As the guest began it, before any translation.
struct EndedConnection {
  PacketHead head;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  friend bool operator==(const EndedConnection&, const EndedConnection&) = default;
};

using NetfilterEvent = std::variant<LoggedPacket, EndedConnection>;

// Of one datagram, in order; what is of another kind or cannot be read is left out.
std::vector<NetfilterEvent> parse_netfilter(std::string_view datagram);

}  // namespace firebreak::egress
