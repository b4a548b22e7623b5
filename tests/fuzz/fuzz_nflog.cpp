// Netlink datagrams of netfilter, with packets a guest wrote: whatever is read has the bounds of
// its kind, and a packet alone gives the same head as inside a message.
#include <cstdlib>
#include <cstring>

#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#include "egress/nflog.h"

namespace {

using namespace firebreak::egress;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_head(const PacketHead& head) {
  if (head.protocol != 6 && head.protocol != 17) check(head.port == 0 && head.source_port == 0);
  if (!head.source.v6)
    for (std::size_t i = 4; i < 16; ++i) check(head.source.bytes[i] == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto head = parse_packet(input);
  if (head) check_head(*head);
  for (const NetfilterEvent& event : parse_netfilter(input)) {
    if (const auto* logged = std::get_if<LoggedPacket>(&event)) {
      check(logged->prefix.size() < 128);
      check_head(logged->head);
    }
  }

  nlattr attribute{static_cast<std::uint16_t>(sizeof(nlattr) + size), NFULA_PAYLOAD};
  if (size > 1000) return 0;
  std::string message(sizeof(nlmsghdr) + 4, '\0');
  message.append(reinterpret_cast<const char*>(&attribute), sizeof attribute).append(input);
  nlmsghdr outer{};
  outer.nlmsg_len = static_cast<std::uint32_t>(message.size());
  outer.nlmsg_type = 4 << 8;  // NFLOG, packet
  std::memcpy(message.data(), &outer, sizeof outer);
  const auto events = parse_netfilter(message);
  check(events.size() == (head ? 1U : 0U));
  if (head) check(std::get<LoggedPacket>(events[0]).head == *head);
  return 0;
}
