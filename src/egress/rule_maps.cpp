#include "egress/rule_maps.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace firebreak::egress {

namespace {

using core::AddressKind;
using core::AnyTarget;
using core::Cidr;
using core::EgressAction;
using core::EgressPolicy;
using core::EgressProtocol;
using core::EgressRule;
using core::PortRange;

struct Owner {
  std::uint16_t last = 0;
  std::uint32_t number = 0;
};

// Which rule has which ports; by the first port of each range.
class PortTable {
 public:
  // Takes what nobody has yet.
  void claim(PortRange range, std::uint32_t number) {
    std::uint32_t at = range.first;
    while (at <= range.last) {
      auto next = owners_.upper_bound(static_cast<std::uint16_t>(at));
      if (next != owners_.begin() && std::prev(next)->second.last >= at) {
        at = std::uint32_t{std::prev(next)->second.last} + 1;
        continue;
      }
      const std::uint32_t end = next == owners_.end()
                                    ? range.last
                                    : std::min<std::uint32_t>(range.last, next->first - 1U);
      owners_[static_cast<std::uint16_t>(at)] = {static_cast<std::uint16_t>(end), number};
      at = end + 1;
    }
  }

  const std::map<std::uint16_t, Owner>& owners() const { return owners_; }

 private:
  std::map<std::uint16_t, Owner> owners_;
};

struct NumberedRule {
  std::uint32_t number;
  const EgressRule* rule;
};
using NumberedRules = std::vector<NumberedRule>;

// Protocols that some rule can tell apart; neighbours follow each other.
struct ProtocolSpan {
  std::uint8_t first;
  std::uint8_t last;
};
constexpr std::array<ProtocolSpan, 9> kSpans{{{0, 0},
                                              {core::kIcmp, core::kIcmp},
                                              {2, 5},
                                              {core::kTcp, core::kTcp},
                                              {7, 16},
                                              {core::kUdp, core::kUdp},
                                              {18, 57},
                                              {core::kIcmp6, core::kIcmp6},
                                              {59, 255}}};

bool speaks(EgressProtocol protocol, std::uint8_t number, bool v6) {
  switch (protocol) {
    case EgressProtocol::any:
      return true;
    case EgressProtocol::tcp:
      return number == core::kTcp;
    case EgressProtocol::udp:
      return number == core::kUdp;
    case EgressProtocol::icmp:
      return number == (v6 ? core::kIcmp6 : core::kIcmp);
  }
  return false;
}

// All ports, without those that only a rule that lists them opens.
std::vector<PortRange> unguarded_ports(std::uint8_t protocol) {
  std::vector<PortRange> out;
  std::uint32_t from = 0;
  for (const std::uint16_t port : {53, 443, 853}) {
    if (!core::guarded_service(protocol, port)) continue;
    out.push_back({static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(port - 1)});
    from = port + 1U;
  }
  out.push_back({static_cast<std::uint16_t>(from), 65535});
  return out;
}

// `guarded`: a rule that lists no ports opens only unguarded ones, so it is here as well.
void append_ports(MapLevel& level, const Cidr& block, const NumberedRules& rules, bool guarded) {
  for (const std::uint8_t protocol : {core::kTcp, core::kUdp}) {
    PortTable table;
    for (const bool listed : {true, false}) {
      if (!listed && !guarded) continue;
      const std::vector<PortRange> all = unguarded_ports(protocol);
      for (const NumberedRule& entry : rules) {
        if (entry.rule->ports.empty() == listed) continue;
        if (!speaks(entry.rule->protocol, protocol, block.base.v6)) continue;
        for (const PortRange& range : listed ? entry.rule->ports : all) {
          table.claim(range, entry.number);
        }
      }
    }
    for (const auto& [first, owner] : table.owners()) {
      level.ports.push_back({block, protocol, {first, owner.last}, owner.number});
    }
  }
}

void append_protocols(MapLevel& level, const Cidr& block, const NumberedRules& rules,
                      bool guarded) {
  std::optional<ProtocolElement> open;  // grows as long as the neighbours have the same rule
  const auto close = [&] {
    if (open) level.protocols.push_back(*open);
    open.reset();
  };
  for (const ProtocolSpan& span : kSpans) {
    const bool has_ports = span.first == core::kTcp || span.first == core::kUdp;
    const auto found = std::ranges::find_if(rules, [&](const NumberedRule& entry) {
      return entry.rule->ports.empty() && speaks(entry.rule->protocol, span.first, block.base.v6);
    });
    if (found == rules.end() || (has_ports && guarded)) {
      close();
    } else if (open && open->number == found->number) {
      open->last = span.last;
    } else {
      close();
      open = ProtocolElement{block, span.first, span.last, found->number};
    }
  }
  close();
}

std::vector<MapLevel> levels(const std::map<Cidr, NumberedRules>& blocks, bool guarded) {
  std::vector<MapLevel> out;
  std::vector<Cidr> around;  // the blocks that the current one lies in, widest first
  // The order of the map puts a block after all that contain it, and next to them.
  for (const auto& [block, rules] : blocks) {
    while (!around.empty() && !around.back().contains(block)) around.pop_back();
    if (out.size() <= around.size()) out.resize(around.size() + 1);
    append_ports(out[around.size()], block, rules, guarded);
    append_protocols(out[around.size()], block, rules, guarded);
    around.push_back(block);
  }
  return out;
}

template <class Wanted>
std::map<Cidr, NumberedRules> blocks_of(const EgressPolicy& policy, bool v6, const Wanted& wanted) {
  std::map<Cidr, NumberedRules> out;
  for (std::size_t i = 0; i < policy.rules.size(); i++) {
    const EgressRule& rule = policy.rules[i];
    if (std::holds_alternative<core::DomainPattern>(rule.target)) continue;
    const Cidr* given = std::get_if<Cidr>(&rule.target);
    Cidr block;
    block.base.v6 = v6;
    if (given != nullptr) block = *given;
    if (block.base.v6 != v6 || !wanted(rule, block)) continue;
    out[block].push_back({static_cast<std::uint32_t>(i) + 1, &rule});
  }
  return out;
}

std::string range_text(unsigned first, unsigned last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

}  // namespace

std::vector<MapLevel> deny_levels(const EgressPolicy& policy, bool v6) {
  return levels(blocks_of(policy, v6,
                          [](const EgressRule& rule, const Cidr&) {
                            return rule.action == EgressAction::deny;
                          }),
                false);
}

std::vector<MapLevel> allow_levels(const EgressPolicy& policy, AddressKind kind, bool v6) {
  const bool names = core::names_decide(policy);
  return levels(blocks_of(policy, v6,
                          [&](const EgressRule& rule, const Cidr& block) {
                            if (rule.action != EgressAction::allow) return false;
                            if (names && std::holds_alternative<AnyTarget>(rule.target)) {
                              return false;
                            }
                            return kind_of(block) == kind;
                          }),
                names);
}

std::string to_nft(const PortElement& element) {
  return to_string(element.block) + " . " + std::to_string(element.protocol) + " . " +
         to_nft(element.ports) + " : " + std::to_string(element.number);
}

std::string to_nft(const ProtocolElement& element) {
  return to_string(element.block) + " . " + range_text(element.first, element.last) + " : " +
         std::to_string(element.number);
}

std::string to_nft(const PortRange& ports) {
  return range_text(ports.first, ports.last);
}

std::vector<PortRange> merged(const std::vector<PortRange>& ports) {
  PortTable table;
  for (const PortRange& range : ports) table.claim(range, 0);
  std::vector<PortRange> out;
  for (const auto& [first, owner] : table.owners()) out.push_back({first, owner.last});
  return out;
}

}  // namespace firebreak::egress
