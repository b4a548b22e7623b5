// The rules of the kernel against the functions of core/: real packets through a real namespace.
#include "egress/ruleset.h"

#include <chrono>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "egress/firewall.h"
#include "egress/meter.h"
#include "egress/nft.h"
#include "egress/policy_test_support.h"

namespace firebreak::egress {
namespace {

using core::EgressLayer;
using core::EgressWord;

core::PacketVerdict expected(const core::EgressStack& stack, const core::EgressPins& pins,
                             const Packet& packet, core::Time now) {
  const Wiring wiring = TestNamespace::wiring();
  const core::IpAddress guest = packet.source.v6 ? *wiring.guest6 : wiring.guest4;
  if (packet.source_mac != wiring.guest_mac || packet.source != guest) {
    return {false, label(EgressLayer::wiring, EgressWord::spoofed)};
  }
  if (packet.source_routed) return {false, label(EgressLayer::wiring, EgressWord::source_route)};
  return decide_packet(stack, pins, {packet.destination, packet.protocol, packet.port}, now);
}

std::string describe(const Packet& packet) {
  return fmt::format("{} -> {} proto {} port {}{}{}", to_string(packet.source),
                     to_string(packet.destination), packet.protocol, packet.port,
                     packet.fragmented ? " fragmented" : "",
                     packet.source_routed ? " source-routed" : "");
}

// Without the brake on the log, so that each packet can be looked up in it.
std::string unlimited(std::string script) {
  const std::string brake = "limit rate 100/second burst 200 packets ";
  for (std::size_t at = 0; (at = script.find(brake, at)) != std::string::npos;) {
    script.erase(at, brake.size());
  }
  return script;
}

bool has_ports(const Packet& packet) {
  return packet.protocol != 253;
}

// Empty when the kernel did what core decides.
std::string compare(const core::EgressStack& stack, const core::EgressPins& pins,
                    const Packet& packet, const Outcome& got, core::Time now) {
  const core::PacketVerdict want = expected(stack, pins, packet, now);
  if (want.allowed &&
      server_name_decides(stack, pins, {packet.destination, packet.protocol, packet.port}, now)) {
    // Led to the gate, where nobody listens here: reset, as if by the destination.
    if (!got.passed && got.answered && got.logged.empty()) return "";
    return describe(packet) + ": not led to the gate";
  }
  if (got.passed != want.allowed) {
    return fmt::format("{}: {}, expected {} ({})", describe(packet),
                       got.passed ? "passed" : "denied", want.allowed ? "passed" : "denied",
                       to_string(want.label));
  }
  if (got.passed && !got.masked) return describe(packet) + ": with the guest's own address";
  const bool by_policy =
      want.label.layer == EgressLayer::maximum || want.label.layer == EgressLayer::policy;
  // The kernel answers only what it can verify the checksum of.
  if (!want.allowed && by_policy && has_ports(packet) && !got.answered) {
    return fmt::format("{}: denied by {} without an answer", describe(packet),
                       to_string(want.label));
  }
  // A protocol without ports has one connection per address; only its first packet is new.
  if (want.allowed && got.logged.empty() && !has_ports(packet)) return "";
  if (got.logged.empty() && to_string(packet.destination) == "::1") return "";  // before all rules
  if (got.logged.size() != 1) {
    return fmt::format("{}: {} log entries, expected {}", describe(packet), got.logged.size(),
                       to_string(want.label));
  }
  // Several domain rules may have pinned the address; the kernel keeps one of them.
  const LogLabel& log = got.logged[0];
  const bool same_kind = log.allowed && want.allowed && log.label.layer == want.label.layer &&
                         pins.pinned(log.label.layer, log.label.code, packet.destination, now) &&
                         pins.pinned(want.label.layer, want.label.code, packet.destination, now);
  if (log.allowed != want.allowed || (log.label != want.label && !same_kind)) {
    return fmt::format("{}: logged {}, expected {}", describe(packet), to_string(log.label),
                       to_string(want.label));
  }
  return "";
}

class RulesetTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TestNamespace::make();
    ASSERT_TRUE(made) << "needs root and /dev/net/tun: " << made.error().text();
    namespace_ = *std::move(made);
    auto opened = Firewall::open(namespace_->netns(), clock_);
    ASSERT_TRUE(opened) << opened.error().text();
    firewall_ = *std::move(opened);
  }

  Result<Ruleset> compiled(const core::EgressStack& stack, const core::EgressPins& pins,
                           core::Time now) {
    return compile({.stack = stack,
                    .wiring = TestNamespace::wiring(),
                    .generation = ++generation_,
                    .pins = pins,
                    .now = now});
  }

  // One random policy and packets for it; the differences. `change` may spoil the script.
  template <class Change>
  std::vector<std::string> round(std::uint64_t seed, int packets, const Change& change) {
    Draw draw(seed);
    const core::Time now = clock_.now();
    const core::EgressStack stack = draw.stack();
    const core::EgressPins pins = draw.pins(stack, now);
    const auto ruleset = compiled(stack, pins, now);
    if (!ruleset) return {ruleset.error().text()};
    const std::string meter = meter_script(meter_input(stack, TestNamespace::wiring()), {});
    const auto loaded =
        NftRunner(namespace_->netns()).run(change(unlimited(ruleset->script + meter)));
    if (!loaded) return {loaded.error().text() + "\n" + ruleset->script};
    EXPECT_TRUE(firewall_->forget_connections());
    GuestSide guest(*namespace_);
    std::vector<std::string> differences;
    for (int i = 0; i < packets; i++) {
      const Packet packet = draw.packet(pins);
      const Outcome got = guest.send(packet);
      if (got.passed) passed_++;
      sent_++;
      std::string difference = compare(stack, pins, packet, got, now);
      if (difference.empty()) continue;
      differences.push_back(fmt::format("{}\n  maximum {}\n  policy {}", difference,
                                        to_json(stack.maximum), to_json(stack.policy)));
    }
    return differences;
  }

  core::SystemClock clock_;
  std::unique_ptr<TestNamespace> namespace_;
  std::unique_ptr<Firewall> firewall_;
  std::uint32_t generation_ = 0;
  int sent_ = 0;
  int passed_ = 0;
};

std::uint64_t first_seed() {
  const char* given = std::getenv("FIREBREAK_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

TEST_F(RulesetTest, DecidesAsCoreDoes) {
  const std::uint64_t seed = first_seed();
  std::cout << "FIREBREAK_SEED=" << seed << "\n";
  for (std::uint64_t i = 0; i < 60; i++) {
    const auto differences = round(seed + i, 80, [](std::string script) { return script; });
    ASSERT_TRUE(differences.empty()) << "FIREBREAK_SEED=" << seed + i << ": " << differences.size()
                                     << " differences; the first: " << differences[0];
  }
  std::cout << sent_ << " packets, " << passed_ << " passed\n";
  EXPECT_GT(passed_, sent_ / 10) << "the draw is too narrow to show anything";
}

// Each line of the rules is there for a reason: without it, packets are decided wrongly and the
// test above would say so.
TEST_F(RulesetTest, NoticesMissingRules) {
  struct Mutation {
    std::string_view line;  // beginning of a line that is taken out, or of the elements of a set
    std::string_view instead;
  };
  const Mutation mutations[] = {
      {"  elements = { 10.0.0.0/8, 100.64.0.0/10", ""},
      {"  elements = { fc00::/7", ""},
      {"  elements = { 100.100.100.200/32", ""},
      {"  elements = { 0.0.0.0/8 :", "  elements = { 0.0.0.0/8 : 4098 }"},
      {"  elements = { ::/8 :", "  elements = { ::/8 : 4103 }"},
      {"  ether saddr !=", ""},
      {"  ip saddr !=", ""},
      {"  ip6 saddr !=", ""},
      {"  ip daddr @off_limits4", ""},
      {"  ip6 daddr @off_limits6", ""},
      {"  exthdr rt", ""},
      {"  jump layer_maximum", ""},
      {"  jump layer_policy", ""},
      {"  meta mark != 0 goto deny_policy", ""},
      {"  meta mark != 0 goto deny_maximum", ""},
      {"  meta mark 0 goto policy_unmatched", ""},
      {"  meta l4proto tcp reject", ""},
      {"  reject with icmpx", ""},
      {"  oifname \"up0\" masquerade", ""},
      {"  jump named_policy", ""},
      {"  jump named_maximum", ""},
      {"  meta mark != 0 meta mark set 0 return", ""},
      {"  meta nfproto ipv4 meta l4proto tcp dnat", ""},
      {"  meta nfproto ipv6 meta l4proto tcp dnat", ""},
      {"  ct status dnat ct state new", ""},
  };
  for (const Mutation& mutation : mutations) {
    const auto spoil = [&](const std::string& script) {
      std::string out;
      for (const std::string_view line : split(script, '\n')) {
        out += line.starts_with(mutation.line) ? mutation.instead : line;
        out += '\n';
      }
      return out;
    };
    bool noticed = false;
    for (std::uint64_t seed = 1; seed <= 100 && !noticed; seed++) {
      noticed = !round(seed, 80, spoil).empty();
    }
    EXPECT_TRUE(noticed) << "nobody misses" << mutation.line;
  }
}

}  // namespace
}  // namespace firebreak::egress
