// Egress policies: what a microVM may reach. Values, their limits, their JSON; what follows from
// them is in egress_decision.h. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/address.h"
#include "core/port_range.h"

namespace firebreak::core {

enum class EgressAction { allow, deny };
enum class EgressProtocol { any, tcp, udp, icmp };  // icmp: ICMP for IPv4, ICMPv6 for IPv6
std::string_view to_string(EgressAction action);
std::string_view to_string(EgressProtocol protocol);

struct AnyTarget {
  friend auto operator<=>(const AnyTarget&, const AnyTarget&) = default;
};
// "example.com" or "*.example.com": everything below, at any depth, but not example.com itself.
struct DomainPattern {
  std::string name;    // lower case, no trailing dot, no "*."
  bool below = false;  // was written with "*."
  friend auto operator<=>(const DomainPattern&, const DomainPattern&) = default;
};
using EgressTarget = std::variant<AnyTarget, Cidr, DomainPattern>;
Result<DomainPattern> parse_domain_pattern(std::string_view text);
std::string to_string(const DomainPattern& pattern);
// Lower case, without the trailing dot; labels of 1..63 letters, digits, '-' and '_'; 253 in all.
Result<std::string> normal_name(std::string_view name);
// `name` as normal_name returns it.
bool matches(const DomainPattern& pattern, std::string_view name);

struct EgressRule {
  EgressAction action = EgressAction::deny;
  EgressTarget target;
  EgressProtocol protocol = EgressProtocol::any;  // never any in a rule that allows a domain
  std::vector<PortRange> ports;  // empty: all. With protocol any, ports are of TCP and of UDP
  friend bool operator==(const EgressRule&, const EgressRule&) = default;
};

// A default-constructed policy allows nothing. The order of rules means nothing: a deny that
// matches beats every allow, and what nothing allows is denied.
struct EgressPolicy {
  std::string name;
  bool internet = false;  // every global address, every protocol
  std::vector<EgressRule> rules;
  std::uint64_t max_bytes = 0;        // in both directions together; 0: no cap
  std::uint32_t max_connections = 0;  // at the same time; 0: kMaxConnections
  // What a domain rule opens on TCP port 443 must be TLS, and ask for a name that may be reached.
  bool sni_check = false;
  friend bool operator==(const EgressPolicy&, const EgressPolicy&) = default;
};

inline constexpr std::string_view kInternetEgress = "INTERNET_EGRESS";
inline constexpr std::string_view kNoEgress = "NO_EGRESS";
EgressPolicy internet_egress();
EgressPolicy no_egress();  // what a missing or unreadable policy means

inline constexpr std::size_t kMaxEgressRules = 1000;
inline constexpr std::size_t kMaxPortRanges = 4000;    // of all rules together
inline constexpr std::size_t kMaxDomainServices = 32;  // different protocol + ports of domain rules
// The table of connections is memory of the host: nobody has more of them than this.
inline constexpr std::uint32_t kMaxConnections = 4096;

inline constexpr std::uint16_t kCheckedPort = 443;  // where sni_check looks for TLS

Result<> check(const EgressPolicy& policy);
// As /v1/egress-policies shows and the store keeps it:
//   {"name":"web","rules":[{"action":"allow","domain":"*.example.com","ports":[443,"8000-8100"]},
//    {"action":"deny","cidr":"203.0.113.0/24","protocol":"udp"},{"action":"allow","any":true}]}
// also internet, sniCheck, maxBytes, maxConnections. Unknown members are refused.
Result<EgressPolicy> egress_policy_from_json(std::string_view text);
std::string to_json(const EgressPolicy& policy);

// True if some rule allows a domain: then addresses that were not resolved for an allowed name are
// denied unless a CIDR rule allows them; and DNS, DNS over TLS and QUIC need a CIDR rule that lists
// their port.
bool names_decide(const EgressPolicy& policy);

}  // namespace firebreak::core
