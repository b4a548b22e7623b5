// Decisions that follow from egress policies: names, packets, and which rule it was. The resolver
// asks decide_name; the rule set of the kernel (egress/ruleset.h) is tested to decide each packet
// as decide_packet does. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/address.h"
#include "core/clock.h"
#include "core/egress.h"

namespace firebreak::core {

// A run gets what the tenant's maximum and its own policy both allow.
struct EgressStack {
  EgressPolicy maximum;
  EgressPolicy policy;
  // The host and other microVMs: uplink addresses of all namespaces, addresses of the host itself.
  std::vector<Cidr> off_limits;
  friend bool operator==(const EgressStack&, const EgressStack&) = default;
};
struct EgressCaps {
  std::uint64_t bytes = 0;  // 0: none
  std::uint32_t connections = kMaxConnections;
  friend bool operator==(const EgressCaps&, const EgressCaps&) = default;
};
EgressCaps caps_of(const EgressStack& stack);  // the tighter of both layers

enum class EgressLayer : std::uint8_t {
  always,   // no policy can change it
  maximum,  // the tenant's
  policy,   // the run's
  wiring,   // not what the guest's card may send
};
std::string_view to_string(EgressLayer layer);

// Words of labels that are not the number of a rule. Above every rule's number, because both travel
// in one 32-bit mark.
enum class EgressWord : std::uint32_t {
  internet = 0x1000,  // allowed as part of the internet
  unmatched,          // nothing allows it
  unspecified,
  loopback,
  link_local,
  multicast,
  broadcast,
  reserved,
  embedded,
  off_limits,
  spoofed,       // source address or MAC is not the guest's
  source_route,  // the packet names further hops
  gateway,       // to the gateway, but not to its resolver
  byte_cap,
  connection_cap,
  bad_name,
  // Of the check of server names (EgressPolicy::sni_check).
  server_name,     // TLS asks for a name that may not be reached there
  no_server_name,  // TLS asks for none
  not_tls,
  unchecked,  // a connection from before the check
};
std::string_view to_string(EgressWord word);
EgressWord never_word(const SpecialBlock& block);  // of kind never

// Which rule decided: "policy:3", "maximum:unmatched", "always:loopback".
struct EgressLabel {
  EgressLayer layer = EgressLayer::always;
  std::uint32_t code =
      0;  // number of the rule, from 1 in the order of the policy; or an EgressWord

  friend auto operator<=>(const EgressLabel&, const EgressLabel&) = default;
};
inline EgressLabel label(EgressLayer layer, EgressWord word) {
  return {layer, static_cast<std::uint32_t>(word)};
}
std::string to_string(const EgressLabel& label);

struct NameDecision {
  bool allowed = false;
  EgressLabel label;  // of the first rule of the policy, or of what denied it
  // Numbers of the domain rules that allow it, of each layer; empty where the layer needs none.
  std::vector<std::uint32_t> maximum_rules;
  std::vector<std::uint32_t> policy_rules;
  std::string reason;  // a sentence for the extended error of the resolver
};
// `name` as the guest sent it.
NameDecision decide_name(const EgressStack& stack, std::string_view name);

// An address that was given to the guest as the answer for a name.
struct EgressPin {
  EgressLayer layer = EgressLayer::policy;  // maximum or policy
  std::uint32_t rule = 0;                   // number of the domain rule that allows the name
  IpAddress address;
  Time expires{};
  friend bool operator==(const EgressPin&, const EgressPin&) = default;
};
// For each address that a name may open at all. Private ones get none: a name never opens them,
// so a resolver that lies cannot lead a guest into the owner's network.
std::vector<EgressPin> pins_for(const NameDecision& decision,
                                const std::vector<IpAddress>& addresses, Time expires);

// The pins of one microVM. The owner serialises calls.
class EgressPins {
 public:
  static constexpr std::size_t kMost = 16'384;

  // Extends a pin that exists, never shortens it. When full, the pin that ends first makes room.
  void add(const EgressPin& pin);
  void expire(Time now);
  void clear() { pins_.clear(); }
  std::size_t size() const { return pins_.size(); }
  // All of them, expired ones too until expire() is called.
  std::vector<EgressPin> all() const;
  bool pinned(EgressLayer layer, std::uint32_t rule, const IpAddress& address, Time now) const;
  // Of several rules of one layer, the latest end and its rule; nullopt when none has the address.
  struct Latest {
    std::uint32_t rule;
    Time expires;
  };
  std::optional<Latest> latest(EgressLayer layer, const std::vector<std::uint32_t>& rules,
                               const IpAddress& address) const;

 private:
  std::map<std::tuple<IpAddress, EgressLayer, std::uint32_t>, Time> pins_;
};

inline constexpr std::uint8_t kIcmp = 1;
inline constexpr std::uint8_t kTcp = 6;
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::uint8_t kIcmp6 = 58;

// DNS, DNS over TLS, QUIC: what a policy with domains keeps shut unless a CIDR rule lists the port.
bool guarded_service(std::uint8_t protocol, std::uint16_t port);

// True: some layer wants the names checked that TLS asks for.
bool checks_server_names(const EgressStack& stack);

// The first packet of a connection, from the guest.
struct EgressPacket {
  IpAddress destination;
  std::uint8_t protocol = kTcp;  // as in the IP header
  std::uint16_t port = 0;        // destination port of TCP and UDP
};
struct PacketVerdict {
  bool allowed = false;
  EgressLabel label;
};
// Does not decide on caps, which depend on earlier packets. Where several rules of a layer match,
// the label names a domain rule, else the smallest block, else a rule that lists ports, else the
// rule with the lowest number.
PacketVerdict decide_packet(const EgressStack& stack, const EgressPins& pins,
                            const EgressPacket& packet, Time now);
// Of a packet that is allowed: only a name opens this address, and a layer wants to see that TLS
// asks for one. decide_packet() decides about the connection as ever; the name comes later.
bool server_name_decides(const EgressStack& stack, const EgressPins& pins,
                         const EgressPacket& packet, Time now);

}  // namespace firebreak::core
