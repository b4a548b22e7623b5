// The rules around the TLS gate: what is led there, as whom, and what the gate itself may do.
#include <array>
#include <chrono>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/text.h"
#include "egress/firewall_test_support.h"
#include "egress/netns.h"
#include "egress/tls_gate.h"

namespace firebreak::egress {
namespace {

using core::EgressPolicy;

class FirewallTlsTest : public FirewallTest {
 protected:
  void SetUp() override {
    FirewallTest::SetUp();
    if (!HasFatalFailure()) {
      listen(AF_INET, "10.0.0.1");
      listen(AF_INET6, "fd00::1");
    }
  }

  void listen(int family, const char* address) {
    auto fd = socket_in(namespace_->netns(), family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ASSERT_TRUE(fd);
    sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(kTlsGatePort), .sin_addr = {}};
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(kTlsGatePort);
    const bool is_v4 = family == AF_INET;
    inet_pton(family, address, is_v4 ? static_cast<void*>(&v4.sin_addr) : &v6.sin6_addr);
    const auto* at =
        is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
    // The kernel takes a moment over a new IPv6 address.
    const Deadline limit = Deadline::in(std::chrono::seconds(10));
    int failed = -1;
    while (failed != 0 && !limit.passed())
      failed = ::bind(fd->get(), at, is_v4 ? sizeof v4 : sizeof v6);
    ASSERT_EQ(failed, 0) << address;
    ASSERT_EQ(::listen(fd->get(), 16), 0);
    listeners_.push_back(*std::move(fd));
  }

  // Both names of one place, and one place by its address.
  static EgressPolicy checked(const std::string& more = "") {
    return rules(R"({"action":"allow","domain":"a.test","ports":[80,443]},
                    {"action":"allow","cidr":"203.0.113.64/26"})",
                 R"(,"sniCheck":true)" + more);
  }
  core::EgressPins pins() {
    core::EgressPins out;
    for (const char* address :
         {"203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.65", "2001:db8::1"})
      out.add({core::EgressLayer::policy, 1, ip(address), clock_.now() + core::Seconds(600)});
    return out;
  }

  // "gate": it was answered by our listener, in the name of where it was going.
  std::string fate_at_gate(const Packet& packet) {
    for (const std::string& frame : frames(packet))
      EXPECT_TRUE(TestNamespace::send(namespace_->tap(), frame));
    EXPECT_TRUE(TestNamespace::received(namespace_->uplink()).empty());
    std::string out = "nothing";
    for (const SeenPacket& seen : TestNamespace::received(namespace_->tap())) {
      if (seen.source != packet.destination || seen.port != packet.source_port) continue;
      if (seen.tcp_flags == (kSyn | kAck) && seen.source_port == packet.port) out = "gate";
      if (seen.reset()) out = "reset";
    }
    for (const LogLabel& logged : namespace_->logged())
      out += (logged.allowed ? " a " : " d ") + to_string(logged.label);
    return out;
  }
  std::string fate_at_gate(std::string_view to, std::uint16_t port = 443) {
    return fate_at_gate(packet(to, core::kTcp, port));
  }

  // Of the packet with which the listener answers.
  std::uint32_t sequence_of_answer(bool v6) {
    const std::size_t tcp = 14UL + (v6 ? 40 : 20);
    std::array<char, 4096> frame{};
    for (;;) {
      const ssize_t size = ::read(namespace_->tap(), frame.data(), frame.size());
      if (size <= 0) break;
      const bool ours = static_cast<std::size_t>(size) >= tcp + 20 &&
                        get_u16(frame.data() + 12) == (v6 ? 0x86dd : 0x0800);
      if (ours && frame[tcp + 13] == (kSyn | kAck)) return get_u32(frame.data() + tcp + 4);
    }
    ADD_FAILURE() << "nobody has answered";
    return 0;
  }

  // A socket of the gate tries to get there; true: its packet leaves.
  bool leaves(std::string_view to, std::uint16_t port) {
    auto fd = socket_in(namespace_->netns(), AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}};
    inet_pton(AF_INET, std::string(to).c_str(), &at.sin_addr);
    (void)::connect(fd->get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
    for (const SeenPacket& seen : TestNamespace::received(namespace_->uplink()))
      if (seen.destination == ip(to) && seen.port == port) return true;
    return false;
  }

  std::vector<UniqueFd> listeners_;
};

TEST_F(FirewallTlsTest, WhatOnlyANameOpensIsLedToTheGate) {
  load(checked(), pins());
  EXPECT_EQ(fate_at_gate("203.0.113.1"), "gate");
  EXPECT_EQ(fate_at_gate("2001:db8::1"), "gate");
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:1");
  EXPECT_EQ(fate("203.0.113.65", core::kTcp, 443), "a policy:1") << "open by its address, too";
  EXPECT_EQ(fate("203.0.113.9", core::kTcp, 443), "d policy:unmatched answered");
  EXPECT_EQ(fate("203.0.113.1", core::kUdp, 443), "d policy:unmatched answered");
  EXPECT_EQ(fate("10.0.0.1", core::kTcp, 443), "d wiring:gateway answered");
  EXPECT_EQ(fate("fd00::1", core::kTcp, 443), "d wiring:gateway answered");
}

TEST_F(FirewallTlsTest, WhoeverAcceptsLearnsWhereItWasGoing) {
  load(checked(), pins());
  for (const char* to : {"203.0.113.1", "203.0.113.2", "2001:db8::1"}) {
    Packet guest = packet(to, core::kTcp, 443);
    guest.source_port = 30'000;  // one port of the guest to all of them
    for (const std::string& frame : frames(guest))
      ASSERT_TRUE(TestNamespace::send(namespace_->tap(), frame));
    guest.tcp_flags = kAck;
    guest.sequence += 1;
    guest.acknowledged = sequence_of_answer(guest.destination.v6) + 1;
    guest.payload = 0;
    for (const std::string& frame : frames(guest))
      ASSERT_TRUE(TestNamespace::send(namespace_->tap(), frame));
    const int listener = listeners_[guest.destination.v6 ? 1 : 0].get();
    const UniqueFd accepted(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted) << to;
    const auto meant = original_destination(accepted.get());
    ASSERT_TRUE(meant) << meant.error().text();
    EXPECT_EQ(to_string(meant->address), to);
    EXPECT_EQ(meant->port, 443);
  }
  EXPECT_FALSE(original_destination(listeners_[0].get()));
}

TEST_F(FirewallTlsTest, TheGateReachesWhatTheGuestMayReach) {
  load(checked(), pins());
  EXPECT_TRUE(leaves("203.0.113.1", 443));
  EXPECT_FALSE(leaves("203.0.113.1", 80));
  EXPECT_FALSE(leaves("203.0.113.9", 443));
  EXPECT_FALSE(leaves("8.8.8.8", 443));
  load(core::internet_egress());
  EXPECT_FALSE(leaves("203.0.113.1", 443)) << "there is no gate";
}

TEST_F(FirewallTlsTest, CapsCountWhatGoesThroughTheGate) {
  load(checked(R"(,"maxConnections":2)"), pins());
  EXPECT_EQ(fate_at_gate("203.0.113.1"), "gate");
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "a policy:1");
  EXPECT_EQ(fate_at_gate("203.0.113.2"), "reset d policy:connection-cap");
  EXPECT_EQ(fate("203.0.113.1", core::kTcp, 80), "d policy:connection-cap answered");
  const Counters some = firewall_->counters().value();
  EXPECT_EQ(some.packets_out, 2U);
  EXPECT_GE(some.packets_in, 1U) << "the gate's answer";

  load(checked(R"(,"maxBytes":)" + std::to_string(some.bytes_in + some.bytes_out + 150)), pins());
  EXPECT_EQ(fate_at_gate("203.0.113.3"), "gate");
  EXPECT_GT(firewall_->counters().value().bytes_out, some.bytes_out);
  EXPECT_EQ(fate_at_gate("203.0.113.2"), "nothing") << "the answer is over the cap";
  EXPECT_EQ(fate_at_gate("203.0.113.2"), "reset d policy:byte-cap");
}

TEST_F(FirewallTlsTest, AnotherPolicyDecidesAgain) {
  EgressPolicy plain = checked();
  plain.sni_check = false;
  load(plain, pins());
  Flow direct = connect("203.0.113.1", 443);
  Flow by_address = connect("203.0.113.65", 443);
  load(checked(), pins());
  EXPECT_EQ(fate(direct.packet), "d policy:unchecked answered");
  EXPECT_EQ(fate(by_address.packet), "passed");

  Packet through = packet("203.0.113.2", core::kTcp, 443);
  EXPECT_EQ(fate_at_gate(through), "gate");
  load(rules(R"({"action":"deny","cidr":"203.0.113.3"},{"action":"allow","domain":"a.test"})",
             R"(,"sniCheck":true)"),
       {});
  through.tcp_flags = kAck;
  through.sequence = 1001;
  EXPECT_EQ(fate_at_gate(through), "reset d policy:unmatched");
  EXPECT_EQ(fate_at_gate("203.0.113.3"), "reset d policy:1");
}

// Rules with the same maps, and another meaning: they are not taken for one's own.
TEST_F(FirewallTlsTest, RulesWithoutTheCheckAreNotAdopted) {
  EgressPolicy plain = checked();
  plain.sni_check = false;
  load(plain, pins());
  const auto again = Firewall::open(namespace_->netns(), clock_);
  ASSERT_TRUE(again);
  const core::EgressStack wanted{core::internet_egress(), checked(), {}};
  EXPECT_EQ((*again)->adopt(wanted, TestNamespace::wiring()).error().code, Code::not_found);
  EXPECT_TRUE((*again)->adopt({core::internet_egress(), plain, {}}, TestNamespace::wiring()));
}

}  // namespace
}  // namespace firebreak::egress
