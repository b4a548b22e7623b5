// Rules over time: connections, pins, a daemon's successor, caps and counters.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "egress/firewall_test_support.h"
#include "egress/nft.h"

namespace firebreak::egress {
namespace {

using core::EgressPolicy;
using core::EgressStack;

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

}  // namespace
}  // namespace firebreak::egress
