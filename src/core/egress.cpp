#include "core/egress.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"

namespace firebreak::core {

namespace {

constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMaxName = 253;
constexpr std::size_t kMaxPolicyName = 64;

bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool opens_domain(const EgressRule& rule) {
  return rule.action == EgressAction::allow && std::holds_alternative<DomainPattern>(rule.target);
}

bool contains_port(const std::vector<PortRange>& ports, std::uint16_t port) {
  return std::ranges::any_of(
      ports, [port](const PortRange& r) { return r.first <= port && port <= r.last; });
}

bool opens_checked_domain(const EgressRule& rule) {
  return opens_domain(rule) && rule.protocol == EgressProtocol::tcp &&
         contains_port(rule.ports, kCheckedPort);
}

Result<> check_ports(const EgressRule& rule) {
  for (const PortRange& range : rule.ports) {
    if (range.first == 0 || range.first > range.last) {
      return fail(Code::invalid, "ports: a range goes from a lower to a higher port, 1 to 65535");
    }
  }
  if (rule.protocol == EgressProtocol::icmp && !rule.ports.empty()) {
    return fail(Code::invalid, "ports: ICMP has none", Repair{"leave them out"});
  }
  return {};
}

// What a rule for a name may say: the resolver decides names, so a denied one has no ports, and an
// allowed one opens ports that are known, none of them of DNS.
Result<> check_domain(const EgressRule& rule) {
  if (rule.action == EgressAction::deny) {
    if (rule.protocol == EgressProtocol::any && rule.ports.empty()) return {};
    return fail(Code::invalid, "domain: a denied name is not resolved at all",
                Repair{"leave out protocol and ports"});
  }
  if (rule.protocol == EgressProtocol::any) {
    return fail(Code::invalid, "protocol: an allowed domain is for one protocol",
                Repair{"write tcp, udp or icmp"});
  }
  if (rule.protocol != EgressProtocol::icmp && rule.ports.empty()) {
    return fail(Code::invalid, "ports: an allowed domain needs them",
                Repair{"write for example [443]"});
  }
  if (contains_port(rule.ports, 53) || contains_port(rule.ports, 853)) {
    return fail(Code::invalid,
                "ports: 53 and 853 are never opened by a domain, because names are resolved by the "
                "gateway only",
                Repair{"allow a resolver by its address (cidr)"});
  }
  return {};
}

Result<> check_rule(const EgressRule& rule) {
  FB_TRY(check_ports(rule));
  if (std::holds_alternative<DomainPattern>(rule.target)) return check_domain(rule);
  const Cidr* block = std::get_if<Cidr>(&rule.target);
  if (block != nullptr && rule.action == EgressAction::allow &&
      kind_of(*block) == AddressKind::never) {
    return fail(Code::invalid, "cidr: no policy can open " + to_string(*block),
                Repair{"remove this rule"});
  }
  return {};
}

Result<> check_name(std::string_view name) {
  auto fits = [](char c) { return name_character(c) || (c >= 'A' && c <= 'Z') || c == '.'; };
  if (name.empty() || name.size() > kMaxPolicyName || !std::ranges::all_of(name, fits)) {
    return fail(Code::invalid, "name: 1 to 64 letters, digits, '-', '_' and '.'",
                Repair{"choose another name"});
  }
  return {};
}

// The limits that only the whole list can break.
Result<> check_together(const EgressPolicy& policy) {
  if (policy.rules.size() > kMaxEgressRules) {
    return fail(Code::invalid, "rules: more than " + std::to_string(kMaxEgressRules),
                Repair{"merge address blocks or use wildcards"});
  }
  std::size_t ranges = 0;
  std::set<std::pair<EgressProtocol, std::vector<PortRange>>> services;
  bool opens_any = policy.internet;
  for (const EgressRule& rule : policy.rules) {
    ranges += rule.ports.size();
    if (opens_domain(rule)) services.insert({rule.protocol, rule.ports});
    opens_any |=
        rule.action == EgressAction::allow && std::holds_alternative<AnyTarget>(rule.target);
  }
  if (ranges > kMaxPortRanges) {
    return fail(Code::invalid,
                "rules: more than " + std::to_string(kMaxPortRanges) + " port ranges in all",
                Repair{"merge them"});
  }
  if (services.size() > kMaxDomainServices) {
    return fail(Code::invalid,
                "rules: domains with more than " + std::to_string(kMaxDomainServices) +
                    " different lists of ports",
                Repair{"use the same list for more of them"});
  }
  if (policy.sni_check && !std::ranges::any_of(policy.rules, opens_checked_domain)) {
    return fail(Code::invalid,
                "sniCheck: it is about TLS on port 443 of allowed domains, and no rule allows one "
                "there",
                Repair{"add one, or leave sniCheck out"});
  }
  if (opens_any && !services.empty()) {
    return fail(Code::invalid,
                "rules: domains are allowed beside the whole internet, so the names would decide "
                "nothing",
                Repair{"remove 'internet' and rules that allow any, or the domains"});
  }
  return {};
}

}  // namespace

std::string_view to_string(EgressAction action) {
  return action == EgressAction::allow ? "allow" : "deny";
}

std::string_view to_string(EgressProtocol protocol) {
  switch (protocol) {
    case EgressProtocol::any:
      return "any";
    case EgressProtocol::tcp:
      return "tcp";
    case EgressProtocol::udp:
      return "udp";
    case EgressProtocol::icmp:
      return "icmp";
  }
  return "?";
}

Result<std::string> normal_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > kMaxName) {
    return fail(Code::invalid, "is not a domain name", Repair{"a name has 1 to 253 characters"});
  }
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (std::string_view part : split(out, '.')) {
    if (part.empty() || part.size() > kMaxLabel) {
      return fail(Code::invalid, "is not a domain name",
                  Repair{"each part has 1 to 63 characters"});
    }
    if (!std::ranges::all_of(part, name_character)) {
      return fail(Code::invalid, "has characters that a domain name does not have",
                  Repair{"write international names in "
                         "their xn-- form"});
    }
  }
  return out;
}

Result<DomainPattern> parse_domain_pattern(std::string_view text) {
  DomainPattern pattern;
  pattern.below = text.starts_with("*.");
  if (text == "*" || text == "*.") {
    return fail(Code::invalid, "would be every name", Repair{"set 'internet' to true instead"});
  }
  if (parse_address(text)) return fail(Code::invalid, "is an address", Repair{"use 'cidr' for it"});
  FB_TRY_ASSIGN(pattern.name, normal_name(pattern.below ? text.substr(2) : text));
  if (parse_address(pattern.name))
    return fail(Code::invalid, "is an address", Repair{"use 'cidr' for it"});
  return pattern;
}

std::string to_string(const DomainPattern& pattern) {
  return (pattern.below ? "*." : "") + pattern.name;
}

bool matches(const DomainPattern& pattern, std::string_view name) {
  if (!pattern.below) return name == pattern.name;
  return name.size() > pattern.name.size() + 1 && name.ends_with(pattern.name) &&
         name[name.size() - pattern.name.size() - 1] == '.';
}

EgressPolicy internet_egress() {
  EgressPolicy policy;
  policy.name = kInternetEgress;
  policy.internet = true;
  return policy;
}

EgressPolicy no_egress() {
  EgressPolicy policy;
  policy.name = kNoEgress;
  return policy;
}

Result<> check(const EgressPolicy& policy) {
  FB_TRY(check_name(policy.name));
  for (const EgressPolicy& builtin : {internet_egress(), no_egress()}) {
    if (policy.name == builtin.name && policy != builtin) {
      return fail(Code::invalid, "name: " + policy.name + " is built in and never changes",
                  Repair{"choose another name"});
    }
  }
  for (std::size_t i = 0; i < policy.rules.size(); i++) {
    if (auto ok = check_rule(policy.rules[i]); !ok) {
      return fail(std::move(ok).error(), "rules[" + std::to_string(i) + "]");
    }
  }
  if (policy.max_connections > kMaxConnections) {
    return fail(Code::invalid, "maxConnections: at most " + std::to_string(kMaxConnections));
  }
  return check_together(policy);
}

bool names_decide(const EgressPolicy& policy) {
  return std::ranges::any_of(policy.rules, opens_domain);
}

}  // namespace firebreak::core
