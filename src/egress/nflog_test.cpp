#include "egress/nflog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/address_test_support.h"
#include "egress/netlink_test_support.h"

namespace firebreak::egress {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

Packet packet(bool v6, std::uint8_t protocol) {
  return {.source = ip(v6 ? "2001:db8::2" : "10.0.0.2"),
          .destination = ip(v6 ? "2001:db8:9::1" : "192.0.2.1"),
          .protocol = protocol,
          .source_port = 4242,
          .port = 443};
}

std::vector<std::string> ip_packets(const Packet& of) {
  std::vector<std::string> out;
  for (const std::string& frame : frames(of)) out.push_back(frame.substr(14));
  return out;
}

TEST(ParsePacket, ReadsBothFamilies) {
  for (const bool v6 : {false, true}) {
    for (const std::uint8_t protocol : {core::kTcp, core::kUdp}) {
      const Packet of = packet(v6, protocol);
      const auto head = parse_packet(ip_packets(of).at(0));
      ASSERT_TRUE(head);
      EXPECT_EQ(head->source, of.source);
      EXPECT_EQ(head->destination, of.destination);
      EXPECT_EQ(head->protocol, protocol);
      EXPECT_EQ(head->source_port, 4242);
      EXPECT_EQ(head->port, 443);
    }
    const std::uint8_t icmp = v6 ? core::kIcmp6 : core::kIcmp;
    const auto echo = parse_packet(ip_packets(packet(v6, icmp)).at(0));
    ASSERT_TRUE(echo);
    EXPECT_EQ(echo->protocol, icmp);
    EXPECT_EQ(echo->port, 0);
  }
}

TEST(ParsePacket, FindsPortsBehindOptions) {
  for (const bool v6 : {false, true}) {
    Packet of = packet(v6, core::kTcp);
    of.source_routed = true;
    const auto head = parse_packet(ip_packets(of).at(0));
    ASSERT_TRUE(head);
    EXPECT_EQ(head->protocol, core::kTcp);
    EXPECT_EQ(head->port, 443);
  }
}

TEST(ParsePacket, LaterFragmentsHaveNoPorts) {
  for (const bool v6 : {false, true}) {
    Packet of = packet(v6, core::kUdp);
    of.fragmented = true;
    const auto pieces = ip_packets(of);
    ASSERT_GE(pieces.size(), 2U);
    EXPECT_EQ(parse_packet(pieces[0])->port, 443);
    const auto later = parse_packet(pieces[1]);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->destination, of.destination);
    EXPECT_EQ(later->protocol, core::kUdp);
    EXPECT_EQ(later->port, 0);
  }
}

TEST(ParsePacket, AnyCutIsHarmless) {
  for (const bool v6 : {false, true}) {
    const std::string whole = ip_packets(packet(v6, core::kTcp)).at(0);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto head = parse_packet(whole.substr(0, size));
      EXPECT_EQ(head.has_value(), size >= (v6 ? 40U : 20U)) << size;
      if (head) EXPECT_EQ(head->port, size >= (v6 ? 44U : 24U) ? 443 : 0) << size;
    }
  }
  EXPECT_FALSE(parse_packet(""));
  EXPECT_FALSE(parse_packet(std::string(60, '\x12')));
  EXPECT_FALSE(parse_packet("\x44" + std::string(40, '\0'))) << "a header of 16 bytes";
}

TEST(ParsePacket, ExtensionHeadersEnd) {
  std::string chain = ip_packets(packet(true, core::kTcp)).at(0).substr(0, 40);
  chain[6] = 0;
  for (int i = 0; i < 10; ++i) chain += std::string(8, '\0');  // hop-by-hop for ever
  const auto head = parse_packet(chain);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->protocol, 0);
  EXPECT_EQ(head->port, 0);
}

TEST(ParseNetfilter, ReadsLoggedPacketsAndEndedConnections) {
  const Packet v4 = packet(false, core::kTcp);
  const Packet v6 = packet(true, core::kUdp);
  const auto events =
      parse_netfilter(log_message("d policy", 0x1001, ip_packets(v4).at(0)) +
                      ended_message(v6, 1500, 1ULL << 40) + ended_message(v4, 1, 2));
  ASSERT_THAT(events, SizeIs(3));
  const auto& logged = std::get<LoggedPacket>(events[0]);
  EXPECT_EQ(logged.prefix, "d policy");
  EXPECT_EQ(logged.mark, 0x1001U);
  EXPECT_EQ(logged.head.port, 443);
  const auto& ended = std::get<EndedConnection>(events[1]);
  EXPECT_EQ(ended.head, *parse_packet(ip_packets(v6).at(0)));
  EXPECT_EQ(ended.bytes_out, 1500U);
  EXPECT_EQ(ended.bytes_in, 1ULL << 40);
  EXPECT_EQ(std::get<EndedConnection>(events[2]).head, logged.head) << "one connection, one key";
}

TEST(ParseNetfilter, LeavesOutWhatItDoesNotKnow) {
  EXPECT_THAT(parse_netfilter(""), IsEmpty());
  EXPECT_THAT(parse_netfilter(std::string(15, 'x')), IsEmpty());
  EXPECT_THAT(parse_netfilter(netlink_message(NLMSG_ERROR, std::string(20, '\0'))), IsEmpty());
  EXPECT_THAT(parse_netfilter(log_message("d policy", 1, "no packet")), IsEmpty());
  const std::string whole = ended_message(packet(false, core::kTcp), 1, 2);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(parse_netfilter(whole.substr(0, size)), IsEmpty()) << size;
  std::string lying = whole;
  lying[20] = '\xff';  // the first attribute is longer than the message
  EXPECT_THAT(parse_netfilter(lying), IsEmpty());
  lying[20] = 0;  // and shorter than itself
  lying[21] = 0;
  EXPECT_THAT(parse_netfilter(lying), IsEmpty());
}

}  // namespace
}  // namespace firebreak::egress
