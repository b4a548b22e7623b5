// Rules over time: connections, pins, caps, counters; and what no policy opens.
#include "egress/firewall.h"

#include <chrono>
#include <iostream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "egress/namespace_test_support.h"
#include "egress/nft.h"

namespace firebreak::egress {
namespace {

using core::EgressPolicy;
using core::EgressStack;
using testing::HasSubstr;
using testing::IsEmpty;

// Moves only when told, so that ends of pins can be chosen. The kernel's own clock runs on.
class ManualClock final : public core::Clock {
 public:
  core::Time now() const override { return now_; }
  core::Time now_{core::Seconds(1'000'000)};
};

core::IpAddress ip(std::string_view text) {
  return core::parse_address(text).value();
}

EgressPolicy rules(const std::string& list, const std::string& more = "") {
  auto read = core::egress_policy_from_json(R"({"name":"p","rules":[)" + list + "]" + more + "}");
  EXPECT_TRUE(read) << read.error().text();
  return read.value_or(core::no_egress());
}

class FirewallTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TestNamespace::make();
    ASSERT_TRUE(made) << "needs root and /dev/net/tun: " << made.error().text();
    namespace_ = *std::move(made);
    auto opened = Firewall::open(namespace_->netns(), clock_);
    ASSERT_TRUE(opened) << opened.error().text();
    firewall_ = *std::move(opened);
    guest_ = std::make_unique<GuestSide>(*namespace_);
  }

  void load(const EgressPolicy& policy, const core::EgressPins& pins = {}) {
    const EgressStack stack{.maximum = core::internet_egress(),
                            .policy = policy,
                            .off_limits = {core::parse_cidr("100.64.0.0/16").value(),
                                           core::parse_cidr("198.51.100.0/24").value(),
                                           core::parse_cidr("fd64::/16").value()}};
    const auto loaded = firewall_->load(stack, TestNamespace::wiring(), pins);
    ASSERT_TRUE(loaded) << loaded.error().text();
    guest_->drain();
  }

  Packet packet(std::string_view to, std::uint8_t protocol, std::uint16_t port) {
    Packet out;
    const Wiring wiring = TestNamespace::wiring();
    out.destination = ip(to);
    out.source = out.destination.v6 ? *wiring.guest6 : wiring.guest4;
    out.source_mac = wiring.guest_mac;
    out.destination_mac = TestNamespace::kTapMac;
    out.protocol = protocol;
    out.port = port;
    out.source_port = ++source_port_;
    return out;
  }

  // "a policy:1", "d always:loopback answered"; without a log entry, what the ends saw.
  std::string fate(const Packet& packet) {
    const Outcome got = guest_->send(packet);
    std::string out = got.passed ? "passed" : "stopped";
    if (!got.logged.empty()) {
      out = (got.logged[0].allowed ? "a " : "d ") + to_string(got.logged[0].label);
      EXPECT_EQ(got.logged[0].allowed, got.passed);
    }
    return out + (got.answered ? " answered" : "");
  }
  std::string fate(std::string_view to, std::uint8_t protocol, std::uint16_t port) {
    return fate(packet(to, protocol, port));
  }

  // The world answers a packet of the guest that left from `port`; true if it arrives.
  bool answer(const Packet& asked, std::uint16_t port, std::uint8_t flags) {
    Packet reply;
    reply.source = asked.destination;
    reply.destination = asked.source.v6 ? TestNamespace::uplink6() : TestNamespace::uplink4();
    reply.source_mac = {2, 0, 0, 0, 0, 9};
    reply.destination_mac = TestNamespace::kUplinkMac;
    reply.protocol = asked.protocol;
    reply.source_port = asked.port;
    reply.port = port;
    reply.tcp_flags = flags;
    reply.sequence = flags == (kSyn | kAck) ? 5000 : 5001;
    reply.acknowledged = 1001;
    for (const std::string& frame : frames(reply)) {
      EXPECT_TRUE(TestNamespace::send(namespace_->uplink(), frame));
    }
    for (const SeenPacket& seen : TestNamespace::received(namespace_->tap())) {
      if (seen.source == asked.destination && seen.destination == asked.source &&
          seen.port == asked.source_port) {
        return true;
      }
    }
    return false;
  }

  struct Flow {
    Packet packet;  // the next one of the guest
    std::uint16_t port = 0;
  };
  // A TCP connection with all three packets of its handshake.
  Flow connect(std::string_view to, std::uint16_t port) {
    Flow flow{packet(to, core::kTcp, port)};
    const Outcome first = guest_->send(flow.packet);
    EXPECT_TRUE(first.passed && first.masked);
    flow.port = first.masked_port;
    EXPECT_TRUE(answer(flow.packet, flow.port, kSyn | kAck));
    flow.packet.tcp_flags = kAck;
    flow.packet.sequence = 1001;
    flow.packet.acknowledged = 5001;
    EXPECT_TRUE(guest_->send(flow.packet).passed);
    return flow;
  }

  ManualClock clock_;
  std::unique_ptr<TestNamespace> namespace_;
  std::unique_ptr<Firewall> firewall_;
  std::unique_ptr<GuestSide> guest_;
  std::uint16_t source_port_ = 20000;
};

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

TEST_F(FirewallTest, NewPolicyDecidesOpenConnectionsAgain) {
  load(rules(R"({"action":"allow","cidr":"203.0.113.0/24"})"));
  Flow kept = connect("203.0.113.1", 80);
  Flow pushed = connect("203.0.113.2", 80);
  Flow cut = connect("203.0.113.3", 22);
  Packet datagram = packet("203.0.113.4", core::kUdp, 500);
  EXPECT_EQ(fate(datagram), "a policy:1");

  load(rules(R"({"action":"allow","cidr":"203.0.113.0/24","ports":[80]})"));
  EXPECT_EQ(fate(kept.packet), "passed") << "allowed still, and not a new connection";
  EXPECT_TRUE(answer(pushed.packet, pushed.port, kAck)) << "also when the world speaks first";
  EXPECT_EQ(fate(pushed.packet), "passed");
  EXPECT_FALSE(answer(cut.packet, cut.port, kAck));
  EXPECT_EQ(fate(cut.packet), "d policy:unmatched answered");
  EXPECT_EQ(fate(datagram), "d policy:unmatched answered");

  load(core::no_egress());
  EXPECT_EQ(fate(kept.packet), "d policy:unmatched answered");
  EXPECT_FALSE(answer(pushed.packet, pushed.port, kAck));
}

TEST_F(FirewallTest, ForgetsConnections) {
  load(core::internet_egress());
  Flow flow = connect("203.0.113.1", 80);
  EXPECT_EQ(fate(flow.packet), "passed");
  ASSERT_TRUE(firewall_->forget_connections());
  EXPECT_FALSE(answer(flow.packet, flow.port, kAck));
  EXPECT_EQ(fate(flow.packet), "stopped answered");
}

TEST_F(FirewallTest, PinsOpenAndClose) {
  const EgressPolicy policy = rules(R"({"action":"allow","domain":"*.example.com"},
      {"action":"allow","domain":"a.example.com","protocol":"udp","ports":[4433]})");
  load(policy);
  const EgressStack stack{core::internet_egress(), policy, {}};
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "d policy:unmatched answered");
  auto pin = [&](std::string_view name, std::string_view address, core::Seconds seconds) {
    ASSERT_TRUE(firewall_->add_pins(
        core::pins_for(core::decide_name(stack, name), {ip(address)}, clock_.now() + seconds)));
  };
  pin("b.example.com", "203.0.113.1", core::Seconds(600));
  pin("a.example.com", "2001:db8::1", core::Seconds(600));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "a policy:1");
  EXPECT_EQ(fate("203.0.113.1", core::kUdp, 4433), "d policy:unmatched answered");
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 8443), "d policy:unmatched answered");
  EXPECT_EQ(fate("2001:db8::1", core::kUdp, 4433), "a policy:2");
  EXPECT_EQ(fate("203.0.113.2", core::kTcp, 443), "d policy:unmatched answered");

  // The same policy again: pins stay if they are given, connections stay open.
  Flow open = connect("203.0.113.1", 443);
  load(policy, firewall_->pins());
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "a policy:1");
  EXPECT_EQ(fate(open.packet), "passed");
  ASSERT_TRUE(firewall_->flush_pins());
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "d policy:unmatched answered");
  EXPECT_EQ(fate(open.packet), "passed") << "what began while it was pinned goes on";
  EXPECT_EQ(firewall_->pins().size(), 0U);
}

TEST_F(FirewallTest, PinsEndAndAreExtended) {
  const EgressPolicy policy = rules(R"({"action":"allow","domain":"*.example.com"})");
  load(policy);
  auto pin = [&](std::string_view address, core::Seconds seconds) {
    ASSERT_TRUE(
        firewall_->add_pins({{core::EgressLayer::policy, 1, ip(address), clock_.now() + seconds}}));
  };
  pin("203.0.113.1", core::Seconds(1));
  pin("203.0.113.2", core::Seconds(1));
  pin("203.0.113.2", core::Seconds(600));
  pin("203.0.113.3", core::Seconds(600));
  pin("203.0.113.3", core::Seconds(1));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "a policy:1");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fate("203.0.113.1", core::kTcp, 443) != "d policy:unmatched answered") {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the pin never ended";
  }
  EXPECT_EQ(fate("203.0.113.2", core::kTcp, 443), "a policy:1") << "extended";
  EXPECT_EQ(fate("203.0.113.3", core::kTcp, 443), "a policy:1") << "not shortened";
}

TEST_F(FirewallTest, IsTakenOverByALaterDaemon) {
  const EgressPolicy policy = rules(R"({"action":"allow","domain":"*.example.com"},
      {"action":"allow","domain":"*.example.org","ports":[8443]})");
  const EgressPolicy other = rules(R"({"action":"allow","domain":"a.b"},
      {"action":"allow","domain":"a.b","ports":[1]},{"action":"allow","domain":"a.b","ports":[2]})");
  load(policy);
  const core::Time end = clock_.now() + core::Seconds(600);
  ASSERT_TRUE(firewall_->add_pins({{core::EgressLayer::policy, 1, ip("203.0.113.1"), end},
                                   {core::EgressLayer::policy, 2, ip("2001:db8::1"), end}}));
  Flow open = connect("203.0.113.1", 443);

  firewall_ = Firewall::open(namespace_->netns(), clock_).value();
  const Wiring wiring = TestNamespace::wiring();
  EXPECT_EQ(firewall_->adopt({core::internet_egress(), other, {}}, wiring).error().code,
            Code::not_found);
  const auto adopted = firewall_->adopt({core::internet_egress(), policy, {}}, wiring);
  ASSERT_TRUE(adopted) << adopted.error().text();
  const std::vector<core::EgressPin> pins = firewall_->pins().all();
  ASSERT_EQ(pins.size(), 2U);
  EXPECT_EQ(pins[0].address, ip("203.0.113.1"));
  EXPECT_EQ(pins[1].rule, 2U);
  EXPECT_GT(pins[1].expires, clock_.now() + core::Seconds(500));
  EXPECT_EQ(fate(open.packet), "passed");
  EXPECT_EQ(fate("2001:db8::1", core::kTcp, 8443), "a policy:2");
  ASSERT_TRUE(firewall_->add_pins({{core::EgressLayer::policy, 1, ip("203.0.113.1"), end},
                                   {core::EgressLayer::policy, 1, ip("203.0.113.7"), end}}));
  EXPECT_EQ(fate("203.0.113.7", core::kTcp, 443), "a policy:1");
}

// What we know of the pins wins over what the kernel has.
TEST_F(FirewallTest, RepairsPins) {
  load(rules(R"({"action":"allow","domain":"a.b"},{"action":"allow","domain":"c.d"})"));
  ASSERT_TRUE(NftRunner(namespace_->netns())
                  .run("add element inet egress policy_pins4_0 { 203.0.113.1 : 2 }"));
  ASSERT_TRUE(firewall_->add_pins(
      {{core::EgressLayer::policy, 1, ip("203.0.113.1"), clock_.now() + core::Seconds(600)}}));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 443), "a policy:1");
}

TEST_F(FirewallTest, CapsConnections) {
  load(rules(R"({"action":"allow","any":true})", R"(,"maxConnections":3)"));
  std::vector<Flow> flows;
  for (int i = 0; i < 3; i++) flows.push_back(connect("203.0.113.1", 80));
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "d policy:connection-cap answered");
  EXPECT_EQ(fate("2001:db8::1", core::kUdp, 80), "d policy:connection-cap answered");
  EXPECT_EQ(fate(flows[0].packet), "passed");
  flows[0].packet.tcp_flags = kRst | kAck;
  EXPECT_EQ(fate(flows[0].packet), "passed");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fate("203.0.113.1", core::kTcp, 80) != "a policy:1") {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "a closed connection still counts";
  }
  EXPECT_EQ(fate(flows[1].packet), "passed");
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "d policy:connection-cap answered");
}

TEST_F(FirewallTest, CountsConnectionsAgainAfterALoad) {
  const EgressPolicy policy = rules(R"({"action":"allow","any":true})", R"(,"maxConnections":2)");
  load(policy);
  const Flow first = connect("203.0.113.1", 80);
  const Flow second = connect("203.0.113.1", 80);
  load(policy);
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(fate(first.packet), "passed");
    EXPECT_EQ(fate(second.packet), "passed");
  }
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "d policy:connection-cap answered");
}

TEST_F(FirewallTest, CapsBytesAndCountsOn) {
  load(rules(R"({"action":"allow","any":true})", R"(,"maxBytes":2000)"));
  Packet datagram = packet("203.0.113.1", core::kUdp, 500);
  datagram.payload = 72;  // 100 bytes with its headers
  for (int i = 0; i < 12; i++) ASSERT_TRUE(guest_->send(datagram).passed) << i;
  Counters counters = firewall_->counters().value();
  EXPECT_EQ(counters.bytes_out, 1200U);
  EXPECT_EQ(counters.packets_out, 12U);
  EXPECT_EQ(counters.denied_packets, 0U);

  // A policy loaded anew does not give the bytes back.
  load(rules(R"({"action":"allow","any":true})", R"(,"maxBytes":2000)"));
  const Outcome out = guest_->send(datagram);
  ASSERT_TRUE(out.passed);
  ASSERT_TRUE(answer(datagram, out.masked_port, 0));
  EXPECT_EQ(firewall_->counters().value().bytes_in, 44U);
  for (int i = 0; i < 6; i++) ASSERT_TRUE(guest_->send(datagram).passed) << i;
  EXPECT_EQ(fate(datagram), "d policy:byte-cap answered");
  EXPECT_FALSE(answer(datagram, out.masked_port, 0));
  counters = firewall_->counters().value();
  EXPECT_EQ(counters.bytes_out, 1900U);
  EXPECT_EQ(counters.denied_packets, 2U);
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
