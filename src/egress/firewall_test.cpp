// What no policy opens, what is forged or hidden in fragments; loading, closing, failing, sizes.
#include "egress/firewall.h"

#include <chrono>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "egress/firewall_test_support.h"
#include "egress/nft.h"

namespace firebreak::egress {
namespace {

using core::EgressPolicy;
using core::EgressStack;
using testing::HasSubstr;
using testing::IsEmpty;

// Even with a rule for everything and the range's own.
TEST_F(FirewallTest, NeverOpensSpecialPlaces) {
  load(rules(R"({"action":"allow","cidr":"0.0.0.0/0"},{"action":"allow","cidr":"::/0"})"));
  ASSERT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:1");
  ASSERT_EQ(fate("2001:db8::1", core::kTcp, 80), "a policy:2");
  const std::pair<const char*, const char*> cases[] = {
      {"0.0.0.1", "unspecified"},
      {"127.0.0.1", "loopback"},
      {"169.254.1.1", "link-local"},
      {"169.254.169.254", "link-local"},
      {"224.0.0.1", "multicast"},
      {"239.1.1.1", "multicast"},
      {"255.255.255.255", "broadcast"},
      {"240.0.0.1", "reserved"},
      {"192.88.99.1", "embedded-ipv4"},
      {"100.64.7.1", "off-limits"},
      {"100.64.7.2", "off-limits"},
      {"198.51.100.1", "off-limits"},
      {"fe80::1", "link-local"},
      {"ff02::1", "multicast"},
      {"::5", "embedded-ipv4"},
      {"::ffff:8.8.8.8", "embedded-ipv4"},
      {"::8.8.8.8", "embedded-ipv4"},
      {"64:ff9b::8.8.8.8", "embedded-ipv4"},
      {"2002:808:808::1", "embedded-ipv4"},
      {"2001::1", "embedded-ipv4"},
      {"100::1", "reserved"},
      {"fec0::1", "reserved"},
      {"fd64::9", "off-limits"},
  };
  for (const auto& [address, word] : cases) {
    for (const std::uint8_t protocol : {core::kTcp, core::kUdp}) {
      EXPECT_THAT(fate(address, protocol, 80), testing::StartsWith(std::string("d always:") + word))
          << address;
    }
  }
  // Those that have a way back are answered as well.
  for (const char* address : {"169.254.169.254", "198.51.100.1", "100.64.7.1", "240.0.0.1",
                              "64:ff9b::8.8.8.8", "fd64::9"}) {
    EXPECT_THAT(fate(address, core::kTcp, 80), testing::EndsWith(" answered")) << address;
    EXPECT_THAT(fate(address, core::kUdp, 80), testing::EndsWith(" answered")) << address;
  }
  for (const char* address : {"10.1.2.3", "172.16.0.1", "192.168.1.1", "100.99.0.1", "fd01::1",
                              "fd00:ec2::254", "168.63.129.16"}) {
    EXPECT_EQ(fate(address, core::kTcp, 80), "d maximum:unmatched answered") << address;
  }
}

TEST_F(FirewallTest, RefusesForgedPackets) {
  load(core::internet_egress());
  Packet mac = packet("203.0.113.1", core::kUdp, 80);
  mac.source_mac[3] = 7;
  EXPECT_EQ(fate(mac), "d wiring:spoofed");
  Packet source = packet("203.0.113.1", core::kTcp, 80);
  source.source = ip("203.0.113.9");
  EXPECT_EQ(fate(source), "d wiring:spoofed");
  source.source = ip("10.0.0.1");
  EXPECT_EQ(fate(source), "d wiring:spoofed");
  Packet source6 = packet("2001:db8::1", core::kUdp, 80);
  for (const char* other : {"fd00::1", "2001:db8::9", "fe80::2"}) {
    source6.source = ip(other);
    EXPECT_THAT(fate(source6), testing::AnyOf("d wiring:spoofed", "stopped")) << other;
  }
  Packet routed = packet("203.0.113.1", core::kTcp, 80);
  routed.source_routed = true;
  EXPECT_EQ(fate(routed), "d wiring:source-route answered");
  Packet routed6 = packet("2001:db8::1", core::kUdp, 80);
  routed6.source_routed = true;
  EXPECT_THAT(fate(routed6), testing::StartsWith("d wiring:source-route"));
  Packet stray = packet("203.0.113.1", core::kTcp, 80);
  stray.tcp_flags = kAck;
  EXPECT_EQ(fate(stray), "stopped answered");
  Packet echo_reply = packet("203.0.113.1", core::kIcmp, 0);
  echo_reply.icmp_type = 0x80;
  EXPECT_EQ(fate(echo_reply), "stopped");
}

TEST_F(FirewallTest, PutsFragmentsTogether) {
  load(rules(R"({"action":"allow","cidr":"203.0.113.0/24","protocol":"tcp","ports":[80]},
                {"action":"allow","cidr":"2001:db8::/32","protocol":"udp","ports":[80]})"));
  Packet tcp = packet("203.0.113.1", core::kTcp, 80);
  tcp.fragmented = true;
  EXPECT_EQ(fate(tcp), "a policy:1");
  tcp = packet("203.0.113.1", core::kTcp, 81);
  tcp.fragmented = true;
  EXPECT_EQ(fate(tcp), "d policy:unmatched answered");
  Packet udp = packet("2001:db8::1", core::kUdp, 80);
  udp.fragmented = true;
  EXPECT_EQ(fate(udp), "a policy:2");
  udp = packet("2001:db8::1", core::kUdp, 81);
  udp.fragmented = true;
  EXPECT_EQ(fate(udp), "d policy:unmatched answered");
  // The later pieces alone, and a piece that is too small for the header: nothing comes out.
  for (const char* address : {"203.0.113.1", "2001:db8::1"}) {
    Packet piece = packet(address, core::kTcp, 80);
    piece.fragmented = true;
    std::vector<std::string> pieces = frames(piece);
    pieces.erase(pieces.begin());
    for (const std::string& frame : pieces) {
      ASSERT_TRUE(TestNamespace::send(namespace_->tap(), frame));
    }
    EXPECT_THAT(TestNamespace::received(namespace_->uplink()), IsEmpty());
  }
}

TEST_F(FirewallTest, GatewayIsAResolverOnly) {
  load(core::internet_egress());
  for (const char* gateway : {"10.0.0.1", "fd00::1"}) {
    EXPECT_EQ(fate(gateway, core::kTcp, 53), "stopped answered") << "nobody listens, a plain reset";
    EXPECT_EQ(fate(gateway, core::kUdp, 53), "stopped") << "port unreachable, not prohibited";
    EXPECT_EQ(fate(gateway, core::kTcp, 22), "d wiring:gateway answered");
    EXPECT_EQ(fate(gateway, core::kUdp, 123), "d wiring:gateway answered");
  }
  EXPECT_EQ(fate("10.0.0.1", core::kIcmp, 0), "d wiring:gateway answered");
  EXPECT_THAT(fate("10.0.0.3", core::kTcp, 53), testing::StartsWith("d ")) << "its broadcast";
  EXPECT_EQ(fate("fd00::77", core::kTcp, 53), "d wiring:off-limits answered") << "back to the tap";
  // The world reaches neither the namespace nor the guest.
  Packet in = packet("203.0.113.1", core::kTcp, 53);
  EXPECT_FALSE(answer(in, 53, kSyn));
  EXPECT_THAT(TestNamespace::received(namespace_->uplink()), IsEmpty()) << "not even a reset";
}

TEST_F(FirewallTest, DropsAll) {
  EXPECT_EQ(firewall_->counters().error().code, Code::not_found);
  EXPECT_EQ(firewall_->add_pins({}).error().code, Code::conflict);
  ASSERT_TRUE(firewall_->drop_all());
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "stopped");
  EXPECT_EQ(fate("10.0.0.1", core::kUdp, 53), "stopped");
  EXPECT_EQ(fate("10.0.0.1", core::kTcp, 53), "stopped");
  EXPECT_EQ(fate("2001:db8::1", core::kUdp, 80), "stopped");
  const Counters before{
      .bytes_out = 5, .packets_out = 1, .bytes_in = 7, .packets_in = 2, .denied_packets = 3};
  const EgressStack stack{core::internet_egress(), core::internet_egress(), {}};
  ASSERT_TRUE(firewall_->load(stack, TestNamespace::wiring(), {}, before));
  EXPECT_EQ(firewall_->counters().value(), before);
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:internet");
}

TEST_F(FirewallTest, GateStaysClosedUntilOpened) {
  const EgressStack stack{core::internet_egress(), core::internet_egress(), {}};
  EXPECT_EQ(firewall_->open_gate().error().code, Code::conflict);
  ASSERT_TRUE(firewall_->load_closed(stack, TestNamespace::wiring()));
  guest_->drain();
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "stopped");
  EXPECT_EQ(fate("2001:db8::1", core::kUdp, 80), "stopped");
  EXPECT_EQ(fate("10.0.0.1", core::kUdp, 53), "stopped");
  ASSERT_TRUE(firewall_->open_gate());
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:internet");
  EXPECT_EQ(firewall_->counters().value().packets_out, 1U);
  ASSERT_TRUE(firewall_->load_closed(stack, TestNamespace::wiring()));
  load(rules(R"({"action":"allow","cidr":"203.0.113.0/24"})"));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:1");
}

TEST_F(FirewallTest, FailsClosedAndSaysWhy) {
  load(core::no_egress());
  const Wiring wiring = TestNamespace::wiring();
  EXPECT_FALSE(firewall_->load({}, wiring)) << "a policy without a name is no policy";
  Wiring hostile = wiring;
  hostile.uplink = "up0\" accept; oifname \"x";
  EXPECT_FALSE(firewall_->load({core::internet_egress(), core::internet_egress(), {}}, hostile));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "d policy:unmatched answered");
  const auto refused = NftRunner(namespace_->netns()).run("add rule inet egress nowhere accept");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().detail, HasSubstr("nowhere"));
  EXPECT_FALSE(NftRunner(-1).run("list tables"));
}

// The rules live in the namespace, wherever the caller is.
TEST_F(FirewallTest, LeavesTheHostAlone) {
  auto tables = [](int netns) { return NftRunner(netns).list("list tables").value_or(""); };
  const auto host = sys::open("/proc/self/ns/net", O_RDONLY);
  ASSERT_TRUE(host);
  const std::string before = tables(host->get());
  load(core::internet_egress());
  EXPECT_EQ(tables(host->get()), before);
  EXPECT_THAT(tables(namespace_->netns()), HasSubstr("egress"));
}

TEST_F(FirewallTest, BrakesTheLog) {
  load(core::no_egress());
  std::size_t logged = 0;
  for (int i = 0; i < 2000; i++) {
    logged += guest_->send(packet("203.0.113.1", core::kUdp, 80)).logged.size();
  }
  EXPECT_GE(logged, 200U);
  EXPECT_LT(logged, 1900U);
  EXPECT_EQ(firewall_->counters().value().denied_packets, 2000U);
}

// A large policy is loaded, decides rightly, and costs lookups, not rules. Times are for the
// reader.
TEST_F(FirewallTest, HoldsAThousandRules) {
  EgressPolicy policy;
  policy.name = "large";
  for (std::uint16_t i = 0; i < 1000; i++) {
    core::EgressRule rule;
    rule.action = i % 5 == 0 ? core::EgressAction::deny : core::EgressAction::allow;
    core::Cidr block = core::parse_cidr("203.0.0.0/32").value();
    block.base.bytes[2] = static_cast<std::uint8_t>(i / 250);
    block.base.bytes[3] = static_cast<std::uint8_t>(i % 250);
    rule.target = block;
    if (i % 3 == 0) rule.ports = {{static_cast<std::uint16_t>(1000 + i), 5000}};
    policy.rules.push_back(rule);
  }
  ASSERT_TRUE(core::check(policy));
  using std::chrono::steady_clock;
  const auto microseconds = [](steady_clock::duration time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  auto per_packet = [&] {
    const auto begin = steady_clock::now();
    for (std::uint16_t i = 0; i < 1000; i++) {
      Packet datagram = packet("203.0.1.2", core::kUdp, 80);
      EXPECT_TRUE(TestNamespace::send(namespace_->tap(), frames(datagram)[0]));
    }
    return microseconds(steady_clock::now() - begin);
  };
  auto time_load = [&](const EgressPolicy& loaded) {
    const auto begin = steady_clock::now();
    load(loaded);
    return microseconds(steady_clock::now() - begin);
  };
  const auto small_load = time_load(core::internet_egress());
  const auto small = per_packet();
  const auto large_load = time_load(policy);
  const auto large = per_packet();
  std::cout << "load: " << small_load << " us for INTERNET_EGRESS, " << large_load
            << " us for 1000 rules; 1000 new connections: " << small << " us, " << large << " us\n";
  guest_->drain();
  for (const std::uint16_t i : {0, 1, 3, 5, 249, 250, 498, 999}) {
    const std::string address = "203.0." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    for (const std::uint16_t port : {999, 4999, 5001}) {
      const auto want = core::decide_packet({core::internet_egress(), policy, {}}, {},
                                            {ip(address), core::kTcp, port}, clock_.now());
      EXPECT_EQ(guest_->send(packet(address, core::kTcp, port)).passed, want.allowed)
          << address << " " << port;
    }
  }
}

// The library would end the process for a descriptor that select() cannot wait for.
TEST_F(FirewallTest, LoadsInAServerWithThousandsOfDescriptors) {
  std::vector<UniqueFd> held;
  while (held.empty() || held.back().get() < 1100)
    held.push_back(sys::open("/dev/null", O_RDONLY).value());
  load(core::internet_egress());
  EXPECT_TRUE(firewall_->counters());
}

}  // namespace
}  // namespace firebreak::egress
