// A firewall on a namespace whose guest and world the test plays: packets in, their fate out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "egress/address_test_support.h"
#include "egress/firewall.h"
#include "egress/namespace_test_support.h"

namespace firebreak::egress {

// Moves only when told, so that ends of pins can be chosen. The kernel's own clock runs on.
class ManualClock final : public core::Clock {
 public:
  core::Time now() const override { return now_; }
  core::Time now_{core::Seconds(1'000'000)};
};

inline core::EgressPolicy rules(const std::string& list, const std::string& more = "") {
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

  void load(const core::EgressPolicy& policy, const core::EgressPins& pins = {}) {
    const core::EgressStack stack{.maximum = core::internet_egress(),
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

}  // namespace firebreak::egress
