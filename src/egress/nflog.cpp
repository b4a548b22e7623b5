#include "egress/nflog.h"

#include <algorithm>
#include <cstring>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#include "base/text.h"
#include "core/egress_decision.h"

namespace firebreak::egress {
namespace {

constexpr std::size_t kIp4Header = 20;
constexpr std::size_t kIp6Header = 40;
constexpr int kMaxExtensions = 8;
constexpr std::size_t kMaxPrefix = 127;  // as in the kernel

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

core::IpAddress address_at(std::string_view bytes, std::size_t at, bool v6) {
  core::IpAddress out{.v6 = v6};
  std::ranges::copy(bytes.substr(at, v6 ? 16 : 4), out.bytes.begin());
  return out;
}

void take_ports(std::string_view transport, PacketHead& head) {
  if ((head.protocol != core::kTcp && head.protocol != core::kUdp) || transport.size() < 4) return;
  head.source_port = get_u16(transport.data());
  head.port = get_u16(transport.data() + 2);
}

std::optional<PacketHead> parse_ip4(std::string_view packet) {
  const std::size_t header = (byte_at(packet, 0) & 0xfU) * 4UL;
  if (packet.size() < kIp4Header || header < kIp4Header) return std::nullopt;
  PacketHead head{.source = address_at(packet, 12, false),
                  .destination = address_at(packet, 16, false),
                  .protocol = byte_at(packet, 9)};
  const bool first = (get_u16(packet.data() + 6) & 0x1fffU) == 0;
  if (first && packet.size() >= header) take_ports(packet.substr(header), head);
  return head;
}

// Hop-by-hop, routing, destination options; their second byte is a length in units of 8.
bool is_extension(std::uint8_t protocol) {
  return protocol == 0 || protocol == 43 || protocol == 60;
}

std::optional<PacketHead> parse_ip6(std::string_view packet) {
  if (packet.size() < kIp6Header) return std::nullopt;
  PacketHead head{.source = address_at(packet, 8, true),
                  .destination = address_at(packet, 24, true),
                  .protocol = byte_at(packet, 6)};
  std::string_view rest = packet.substr(kIp6Header);
  bool first = true;
  for (int i = 0; i < kMaxExtensions && rest.size() >= 8; ++i) {
    std::size_t size = 8;
    if (head.protocol == 44) {
      first = (get_u16(rest.data() + 2) & 0xfff8U) == 0;
    } else if (is_extension(head.protocol)) {
      size = (byte_at(rest, 1) + 1UL) * 8;
    } else {
      break;
    }
    head.protocol = byte_at(rest, 0);
    if (!first) return head;
    rest.remove_prefix(std::min(size, rest.size()));
  }
  take_ports(rest, head);
  return head;
}

// Attributes of a netlink message, one after the other; ends at the first that is cut.
class Attributes {
 public:
  explicit Attributes(std::string_view bytes) : bytes_(bytes) {}

  bool next() {
    if (bytes_.size() < sizeof(nlattr)) return false;
    nlattr head;
    std::memcpy(&head, bytes_.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > bytes_.size()) return false;
    type_ = head.nla_type & NLA_TYPE_MASK;
    data_ = bytes_.substr(sizeof head, head.nla_len - sizeof head);
    bytes_.remove_prefix(std::min<std::size_t>(NLA_ALIGN(head.nla_len), bytes_.size()));
    return true;
  }
  int type() const { return type_; }
  std::string_view data() const { return data_; }
  std::uint16_t u16() const { return data_.size() == 2 ? get_u16(data_.data()) : 0; }
  std::uint32_t u32() const { return data_.size() == 4 ? get_u32(data_.data()) : 0; }
  std::uint64_t u64() const { return data_.size() == 8 ? get_u64(data_.data()) : 0; }

 private:
  std::string_view bytes_;
  int type_ = 0;
  std::string_view data_;
};

std::optional<NetfilterEvent> logged_packet(std::string_view body) {
  LoggedPacket out;
  std::optional<PacketHead> head;
  for (Attributes at(body); at.next();) {
    if (at.type() == NFULA_PREFIX) {
      const std::string_view text = at.data().substr(0, at.data().find('\0'));
      out.prefix = text.substr(0, kMaxPrefix);
    }
    if (at.type() == NFULA_MARK) out.mark = at.u32();
    if (at.type() == NFULA_PAYLOAD) head = parse_packet(at.data());
  }
  if (!head) return std::nullopt;
  out.head = *head;
  return out;
}

bool take_addresses(std::string_view body, PacketHead& head) {
  bool source = false;
  bool destination = false;
  for (Attributes at(body); at.next();) {
    const bool v6 = at.data().size() == 16;
    if (!v6 && at.data().size() != 4) continue;
    if (at.type() == (v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC)) {
      head.source = address_at(at.data(), 0, v6);
      source = true;
    }
    if (at.type() == (v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST)) {
      head.destination = address_at(at.data(), 0, v6);
      destination = true;
    }
  }
  return source && destination;
}

void take_protocol(std::string_view body, PacketHead& head) {
  for (Attributes at(body); at.next();) {
    if (at.type() == CTA_PROTO_NUM && at.data().size() == 1) head.protocol = byte_at(at.data(), 0);
    if (at.type() == CTA_PROTO_SRC_PORT) head.source_port = at.u16();
    if (at.type() == CTA_PROTO_DST_PORT) head.port = at.u16();
  }
}

std::uint64_t counted_bytes(std::string_view body) {
  for (Attributes at(body); at.next();)
    if (at.type() == CTA_COUNTERS_BYTES) return at.u64();
  return 0;
}

std::optional<NetfilterEvent> ended_connection(std::string_view body) {
  EndedConnection out;
  bool known = false;
  for (Attributes at(body); at.next();) {
    if (at.type() == CTA_COUNTERS_ORIG) out.bytes_out = counted_bytes(at.data());
    if (at.type() == CTA_COUNTERS_REPLY) out.bytes_in = counted_bytes(at.data());
    if (at.type() != CTA_TUPLE_ORIG) continue;
    for (Attributes part(at.data()); part.next();) {
      if (part.type() == CTA_TUPLE_IP) known = take_addresses(part.data(), out.head);
      if (part.type() == CTA_TUPLE_PROTO) take_protocol(part.data(), out.head);
    }
  }
  if (!known) return std::nullopt;
  return out;
}

}  // namespace

std::optional<PacketHead> parse_packet(std::string_view packet) {
  if (packet.empty()) return std::nullopt;
  const unsigned version = byte_at(packet, 0) >> 4U;
  if (version == 4) return parse_ip4(packet);
  if (version == 6) return parse_ip6(packet);
  return std::nullopt;
}

std::vector<NetfilterEvent> parse_netfilter(std::string_view datagram) {
  std::vector<NetfilterEvent> out;
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr head;
    std::memcpy(&head, datagram.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > datagram.size()) break;
    std::string_view body = datagram.substr(sizeof head, head.nlmsg_len - sizeof head);
    datagram.remove_prefix(std::min<std::size_t>(NLMSG_ALIGN(head.nlmsg_len), datagram.size()));
    if (body.size() < sizeof(nfgenmsg)) continue;
    body.remove_prefix(sizeof(nfgenmsg));
    std::optional<NetfilterEvent> event;
    if (head.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) event = logged_packet(body);
    if (head.nlmsg_type == (NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE))
      event = ended_connection(body);
    if (event) out.push_back(*std::move(event));
  }
  return out;
}

}  // namespace firebreak::egress
