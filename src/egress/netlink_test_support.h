// For tests: netlink messages of netfilter, built as the kernel builds them.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "base/text.h"
#include "egress/packet_test_support.h"

namespace firebreak::egress {

inline std::string attribute(std::uint16_t type, std::string_view data) {
  nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + data.size()), type};
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out += data;
  out.resize(NLA_ALIGN(out.size()), '\0');
  return out;
}

inline std::string nested(std::uint16_t type, std::string_view data) {
  return attribute(type | NLA_F_NESTED, data);
}

inline std::string netlink_message(std::uint16_t type, std::string_view attributes) {
  const nfgenmsg body{AF_INET, NFNETLINK_V0, 0};
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof head + sizeof body + attributes.size());
  head.nlmsg_type = type;
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out.append(reinterpret_cast<const char*>(&body), sizeof body);
  return out.append(attributes);
}

template <class T>
std::string big_endian(T value) {
  std::string out;
  if constexpr (sizeof value == 2) put_u16(out, value);
  if constexpr (sizeof value == 4) put_u32(out, value);
  if constexpr (sizeof value == 8) put_u64(out, value);
  return out;
}

// `packet` begins with its IP header.
inline std::string log_message(std::string_view prefix, std::uint32_t mark,
                               std::string_view packet) {
  return netlink_message(
      NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET,
      attribute(NFULA_PACKET_HDR, std::string(4, '\0')) + attribute(NFULA_MARK, big_endian(mark)) +
          attribute(NFULA_PREFIX, std::string(prefix) + '\0') + attribute(NFULA_PAYLOAD, packet));
}

inline std::string ended_message(const Packet& packet, std::uint64_t out, std::uint64_t in) {
  const bool v6 = packet.source.v6;
  const std::string addresses =
      attribute(v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC, detail::bytes_of(packet.source)) +
      attribute(v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST, detail::bytes_of(packet.destination));
  const std::string protocol =
      attribute(CTA_PROTO_NUM, std::string(1, static_cast<char>(packet.protocol))) +
      attribute(CTA_PROTO_SRC_PORT, big_endian(packet.source_port)) +
      attribute(CTA_PROTO_DST_PORT, big_endian(packet.port));
  const auto counters = [](std::uint64_t bytes) {
    return attribute(CTA_COUNTERS_PACKETS, big_endian(std::uint64_t{3})) +
           attribute(CTA_COUNTERS_BYTES, big_endian(bytes));
  };
  return netlink_message(
      NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE,
      nested(CTA_TUPLE_ORIG, nested(CTA_TUPLE_IP, addresses) + nested(CTA_TUPLE_PROTO, protocol)) +
          nested(CTA_COUNTERS_ORIG, counters(out)) + nested(CTA_COUNTERS_REPLY, counters(in)));
}

}  // namespace firebreak::egress
