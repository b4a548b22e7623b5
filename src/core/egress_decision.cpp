#include "core/egress_decision.h"

#include <algorithm>
#include <utility>

namespace firebreak::core {

namespace {

struct Service {
  std::uint8_t protocol;
  std::uint16_t port;
  bool v6;
};

bool covers(const EgressRule& rule, const Service& service) {
  if (rule.protocol == EgressProtocol::icmp) {
    return service.protocol == (service.v6 ? kIcmp6 : kIcmp);
  }
  const bool tcp = service.protocol == kTcp && rule.protocol != EgressProtocol::udp;
  const bool udp = service.protocol == kUdp && rule.protocol != EgressProtocol::tcp;
  if (rule.ports.empty()) return tcp || udp || rule.protocol == EgressProtocol::any;
  return (tcp || udp) && std::ranges::any_of(rule.ports, [&](const PortRange& range) {
           return range.first <= service.port && service.port <= range.last;
         });
}

// The most specific rule so far.
struct Best {
  std::uint32_t number = 0;
  std::pair<int, bool> rank{-1, true};  // prefix, whether ports are listed

  void offer(std::size_t index, int prefix, bool lists_ports) {
    const std::pair offered(prefix, lists_ports);
    if (offered <= rank) return;
    number = static_cast<std::uint32_t>(index) + 1;
    rank = offered;
  }
};

// The prefix with which a rule's target is around the address; -1: it is not, or it is a name.
int prefix_around(const EgressTarget& target, const IpAddress& address) {
  if (std::holds_alternative<AnyTarget>(target)) return 0;
  const Cidr* block = std::get_if<Cidr>(&target);
  return block != nullptr && block->contains(address) ? block->prefix : -1;
}

AddressKind opened_kind(const EgressTarget& target) {
  const Cidr* block = std::get_if<Cidr>(&target);
  return block == nullptr ? AddressKind::global : kind_of(*block);
}

class LayerDecision {
 public:
  LayerDecision(const EgressPolicy& policy, EgressLayer layer, const EgressPacket& packet)
      : policy_(policy),
        layer_(layer),
        address_(packet.destination),
        kind_(kind_of(packet.destination)),
        service_{packet.protocol, packet.port, packet.destination.v6},
        names_(names_decide(policy)) {}

  PacketVerdict decide(const EgressPins& pins, Time now) const {
    if (const Best deny = best(EgressAction::deny); deny.number != 0) {
      return {false, {layer_, deny.number}};
    }
    if (const std::uint32_t rule = pinned_rule(pins, now); rule != 0) return {true, {layer_, rule}};
    if (const Best allow = best(EgressAction::allow); allow.number != 0) {
      return {true, {layer_, allow.number}};
    }
    if (policy_.internet && !names_ && kind_ == AddressKind::global) {
      return {true, label(layer_, EgressWord::internet)};
    }
    return {false, label(layer_, EgressWord::unmatched)};
  }

  bool server_name_decides(const EgressPins& pins, Time now) const {
    return policy_.sni_check && service_.protocol == kTcp && service_.port == kCheckedPort &&
           best(EgressAction::allow).number == 0 && pinned_rule(pins, now) != 0;
  }

 private:
  Best best(EgressAction action) const {
    Best found;
    for (std::size_t i = 0; i < policy_.rules.size(); i++) {
      const EgressRule& rule = policy_.rules[i];
      if (rule.action != action || !covers(rule, service_)) continue;
      if (action == EgressAction::allow && !opens(rule)) continue;
      found.offer(i, prefix_around(rule.target, address_), !rule.ports.empty());
    }
    return found;
  }

  bool opens(const EgressRule& rule) const {
    if (opened_kind(rule.target) != kind_) return false;
    if (!names_) return true;
    if (std::holds_alternative<AnyTarget>(rule.target)) return false;
    return !rule.ports.empty() || !guarded_service(service_.protocol, service_.port);
  }

  std::uint32_t pinned_rule(const EgressPins& pins, Time now) const {
    if (kind_ != AddressKind::global) return 0;
    for (std::size_t i = 0; i < policy_.rules.size(); i++) {
      const EgressRule& rule = policy_.rules[i];
      const auto number = static_cast<std::uint32_t>(i) + 1;
      if (rule.action == EgressAction::allow &&
          std::holds_alternative<DomainPattern>(rule.target) && covers(rule, service_) &&
          pins.pinned(layer_, number, address_, now)) {
        return number;
      }
    }
    return 0;
  }

  const EgressPolicy& policy_;
  EgressLayer layer_;
  const IpAddress& address_;
  AddressKind kind_;
  Service service_;
  bool names_;
};

struct LayerName {
  bool allowed = false;
  std::uint32_t denied_by = 0;
  std::vector<std::uint32_t> rules;
};

LayerName decide_layer_name(const EgressPolicy& policy, std::string_view name) {
  LayerName out;
  bool any = policy.internet;
  for (std::size_t i = 0; i < policy.rules.size(); i++) {
    const EgressRule& rule = policy.rules[i];
    const bool allow = rule.action == EgressAction::allow;
    any |= allow && std::holds_alternative<AnyTarget>(rule.target);
    const DomainPattern* pattern = std::get_if<DomainPattern>(&rule.target);
    if (pattern == nullptr || !matches(*pattern, name)) continue;
    const auto number = static_cast<std::uint32_t>(i) + 1;
    if (allow) {
      out.rules.push_back(number);
    } else if (out.denied_by == 0) {
      out.denied_by = number;
    }
  }
  out.allowed = out.denied_by == 0 && (names_decide(policy) ? !out.rules.empty() : any);
  return out;
}

std::string layer_words(EgressLayer layer) {
  return layer == EgressLayer::maximum ? "the tenant's maximum" : "the egress policy";
}

EgressWord word_of(NeverKind never) {
  switch (never) {
    case NeverKind::unspecified:
      return EgressWord::unspecified;
    case NeverKind::loopback:
      return EgressWord::loopback;
    case NeverKind::link_local:
      return EgressWord::link_local;
    case NeverKind::multicast:
      return EgressWord::multicast;
    case NeverKind::broadcast:
      return EgressWord::broadcast;
    case NeverKind::reserved:
      return EgressWord::reserved;
    case NeverKind::embedded:
      return EgressWord::embedded;
  }
  return EgressWord::reserved;
}

}  // namespace

bool guarded_service(std::uint8_t protocol, std::uint16_t port) {
  if (protocol == kUdp && port == 443) return true;
  return (protocol == kTcp || protocol == kUdp) && (port == 53 || port == 853);
}

bool checks_server_names(const EgressStack& stack) {
  return stack.maximum.sni_check || stack.policy.sni_check;
}

EgressCaps caps_of(const EgressStack& stack) {
  EgressCaps caps;
  for (const EgressPolicy* layer : {&stack.maximum, &stack.policy}) {
    if (layer->max_bytes != 0 && (caps.bytes == 0 || layer->max_bytes < caps.bytes)) {
      caps.bytes = layer->max_bytes;
    }
    if (layer->max_connections != 0) {
      caps.connections = std::min(caps.connections, layer->max_connections);
    }
  }
  return caps;
}

std::string_view to_string(EgressLayer layer) {
  switch (layer) {
    case EgressLayer::always:
      return "always";
    case EgressLayer::maximum:
      return "maximum";
    case EgressLayer::policy:
      return "policy";
    case EgressLayer::wiring:
      return "wiring";
  }
  return "?";
}

std::string_view to_string(EgressWord word) {
  switch (word) {
    case EgressWord::internet:
      return "internet";
    case EgressWord::unmatched:
      return "unmatched";
    case EgressWord::unspecified:
      return "unspecified";
    case EgressWord::loopback:
      return "loopback";
    case EgressWord::link_local:
      return "link-local";
    case EgressWord::multicast:
      return "multicast";
    case EgressWord::broadcast:
      return "broadcast";
    case EgressWord::reserved:
      return "reserved";
    case EgressWord::embedded:
      return "embedded-ipv4";
    case EgressWord::off_limits:
      return "off-limits";
    case EgressWord::spoofed:
      return "spoofed";
    case EgressWord::source_route:
      return "source-route";
    case EgressWord::gateway:
      return "gateway";
    case EgressWord::byte_cap:
      return "byte-cap";
    case EgressWord::connection_cap:
      return "connection-cap";
    case EgressWord::bad_name:
      return "bad-name";
    case EgressWord::server_name:
      return "server-name";
    case EgressWord::no_server_name:
      return "no-server-name";
    case EgressWord::not_tls:
      return "not-tls";
    case EgressWord::unchecked:
      return "unchecked";
  }
  return "?";
}

std::string to_string(const EgressLabel& label) {
  const auto code = label.code;
  return std::string(to_string(label.layer)) + ":" +
         (code < static_cast<std::uint32_t>(EgressWord::internet)
              ? std::to_string(code)
              : std::string(to_string(static_cast<EgressWord>(code))));
}

EgressWord never_word(const SpecialBlock& block) {
  return word_of(block.never);
}

NameDecision decide_name(const EgressStack& stack, std::string_view raw) {
  NameDecision decision;
  const Result<std::string> name = normal_name(raw);
  if (!name) {
    decision.label = label(EgressLayer::always, EgressWord::bad_name);
    decision.reason = "the name " + name.error().message;
    return decision;
  }
  LayerName maximum = decide_layer_name(stack.maximum, *name);
  LayerName policy = decide_layer_name(stack.policy, *name);
  decision.allowed = maximum.allowed && policy.allowed;
  const EgressLayer layer = maximum.allowed ? EgressLayer::policy : EgressLayer::maximum;
  const LayerName& decider = maximum.allowed ? policy : maximum;
  if (decider.denied_by != 0) {
    decision.label = {layer, decider.denied_by};
    decision.reason =
        layer_words(layer) + " denies the name by rule " + std::to_string(decider.denied_by);
  } else if (!decider.allowed) {
    decision.label = label(layer, EgressWord::unmatched);
    decision.reason = "no rule of " + layer_words(layer) + " allows the name";
  } else if (!policy.rules.empty()) {
    decision.label = {layer, policy.rules.front()};
    decision.reason = "allowed by rule " + std::to_string(policy.rules.front());
  } else {
    decision.label = label(layer, EgressWord::internet);
    decision.reason = "allowed as part of the internet";
  }
  decision.maximum_rules = std::move(maximum.rules);
  decision.policy_rules = std::move(policy.rules);
  return decision;
}

std::vector<EgressPin> pins_for(const NameDecision& decision,
                                const std::vector<IpAddress>& addresses, Time expires) {
  std::vector<EgressPin> pins;
  if (!decision.allowed) return pins;
  for (const IpAddress& address : addresses) {
    if (kind_of(address) != AddressKind::global) continue;
    for (std::uint32_t rule : decision.maximum_rules) {
      pins.push_back({EgressLayer::maximum, rule, address, expires});
    }
    for (std::uint32_t rule : decision.policy_rules) {
      pins.push_back({EgressLayer::policy, rule, address, expires});
    }
  }
  return pins;
}

void EgressPins::add(const EgressPin& pin) {
  auto [found, added] =
      pins_.try_emplace(std::tuple(pin.address, pin.layer, pin.rule), pin.expires);
  found->second = std::max(found->second, pin.expires);
  if (!added || pins_.size() <= kMost) return;
  pins_.erase(std::ranges::min_element(pins_, {}, [](const auto& entry) { return entry.second; }));
}

void EgressPins::expire(Time now) {
  std::erase_if(pins_, [now](const auto& entry) { return entry.second <= now; });
}

std::vector<EgressPin> EgressPins::all() const {
  std::vector<EgressPin> out;
  out.reserve(pins_.size());
  for (const auto& [key, expires] : pins_) {
    const auto& [address, layer, rule] = key;
    out.push_back({layer, rule, address, expires});
  }
  return out;
}

bool EgressPins::pinned(EgressLayer layer, std::uint32_t rule, const IpAddress& address,
                        Time now) const {
  const auto found = pins_.find(std::tuple(address, layer, rule));
  return found != pins_.end() && found->second > now;
}

std::optional<EgressPins::Latest> EgressPins::latest(EgressLayer layer,
                                                     const std::vector<std::uint32_t>& rules,
                                                     const IpAddress& address) const {
  std::optional<Latest> out;
  for (auto at = pins_.lower_bound(std::tuple(address, layer, 0U)); at != pins_.end(); ++at) {
    const auto& [its_address, its_layer, its_rule] = at->first;
    if (its_address != address || its_layer != layer) break;
    if (!std::ranges::binary_search(rules, its_rule)) continue;
    if (!out || at->second > out->expires) out = Latest{its_rule, at->second};
  }
  return out;
}

PacketVerdict decide_packet(const EgressStack& stack, const EgressPins& pins,
                            const EgressPacket& packet, Time now) {
  const IpAddress& address = packet.destination;
  for (const Cidr& block : stack.off_limits) {
    if (block.contains(address)) return {false, label(EgressLayer::always, EgressWord::off_limits)};
  }
  const SpecialBlock* block = special_block_of(address);
  if (block != nullptr && block->kind == AddressKind::never) {
    return {false, label(EgressLayer::always, never_word(*block))};
  }
  const PacketVerdict maximum =
      LayerDecision(stack.maximum, EgressLayer::maximum, packet).decide(pins, now);
  if (!maximum.allowed) return maximum;
  return LayerDecision(stack.policy, EgressLayer::policy, packet).decide(pins, now);
}

bool server_name_decides(const EgressStack& stack, const EgressPins& pins,
                         const EgressPacket& packet, Time now) {
  using enum EgressLayer;
  return LayerDecision(stack.maximum, maximum, packet).server_name_decides(pins, now) ||
         LayerDecision(stack.policy, policy, packet).server_name_decides(pins, now);
}

}  // namespace firebreak::core
