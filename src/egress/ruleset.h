// Compiles what core/egress_decision.h decides into the nftables rules of one network namespace:
// one script that replaces the whole table in one transaction, so that there is no moment with half
// a policy. Text is made from typed values only. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/egress_decision.h"

namespace firebreak::egress {

using MacAddress = std::array<std::uint8_t, 6>;

// How the namespace is wired; the same for every clone but for the uplink.
struct Wiring {
  std::string tap = "tap0";    // the guest's side
  std::string uplink = "up0";  // the world's side
  MacAddress guest_mac{};
  core::IpAddress guest4;
  core::IpAddress gateway4;               // where the resolver listens, port 53
  std::optional<core::IpAddress> guest6;  // absent: no IPv6 at all
  std::optional<core::IpAddress> gateway6;
  // Connections may be open through the TLS gate (tls_gate.h). A stack that checks server names has
  // rules for it in any case.
  bool tls_gate = false;
};
inline constexpr std::uint16_t kTlsGatePort = 443;  // of the gateway's addresses

// What was counted so far. Bytes are of IP packets.
struct Counters {
  std::uint64_t bytes_out = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t denied_packets = 0;
  friend bool operator==(const Counters&, const Counters&) = default;
};

inline constexpr std::string_view kTable = "egress";  // of family inet
inline constexpr int kLogGroup = 1;                   // of NFLOG, per namespace

// The set that holds the pins of some domain rules: those with the same protocol and ports.
struct PinGroup {
  core::EgressLayer layer = core::EgressLayer::policy;
  std::vector<std::uint32_t> rules;  // numbers, ascending
  std::string map4;                  // names in the table
  std::string map6;

  const std::string& map(bool v6) const { return v6 ? map6 : map4; }
};

struct Ruleset {
  std::string script;
  std::vector<PinGroup> groups;
};

// A connection belongs to the rule set under which it was decided. Packets of one from an earlier
// rule set are decided again: what is still allowed goes on, the rest is cut. `generation` tells
// them apart: never 0, and different from the one before (a random number does).
struct RulesetInput {
  core::EgressStack stack;
  Wiring wiring;
  std::uint32_t generation = 1;
  core::EgressPins pins;
  core::Time now{};
  std::uint64_t denied_packets = 0;  // so far
  bool gate_closed = false;          // nothing passes before open_gate_script
};
// Code::invalid for names of links that could not be one, or addresses of the wrong family.
Result<Ruleset> compile(const RulesetInput& input);

// Nothing passes, nothing is answered: for clones that wait, and for everything that went wrong.
std::string drop_all_ruleset(std::uint64_t denied_packets = 0);

std::string open_gate_script();
// A chain that only rules compiled from these two policies have.
std::string identity_chain(const core::EgressStack& stack);

// Adds or extends the pins `added`, which are in `pins` by now; `before` is what the kernel may
// still have. Expired ones are left out. Empty: nothing to do.
std::string add_pins_script(const Ruleset& ruleset, const core::EgressPins& before,
                            const core::EgressPins& pins, const std::vector<core::EgressPin>& added,
                            core::Time now);
std::string flush_pins_script(const Ruleset& ruleset);

// A packet in the log group: the prefix says whether and which layer, the packet's mark which rule.
//   "a policy" + 3: allowed by rule 3 of the policy;  "d always" + mark of EgressWord::loopback
struct LogLabel {
  bool allowed = false;
  core::EgressLabel label;
};
std::optional<LogLabel> parse_log(std::string_view prefix, std::uint32_t mark);

}  // namespace firebreak::egress
