#include "egress/layer_rules.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "egress/nft_text.h"
#include "egress/rule_maps.h"

namespace firebreak::egress {

namespace {

using core::AddressKind;
using core::EgressLayer;
using core::EgressPolicy;
using core::EgressRule;
using core::EgressWord;

constexpr std::size_t kMostPinsInKernel = 65'535;

// Decisions look at the connection, not at the packet: so they are the same for both directions.
// nft knows the type of a port only after a match for one protocol in the same rule.
constexpr std::string_view kProtocol = "ct original protocol";
constexpr std::string_view kPort = "ct original proto-dst";
constexpr std::string_view address_key(bool v6) {
  return v6 ? "ct original ip6 daddr" : "ct original ip daddr";
}

class LayerWriter {
 public:
  LayerWriter(EgressLayer layer, const EgressPolicy& policy, const core::EgressPins& pins,
              core::Time now)
      : layer_(layer), name_(to_string(layer)), policy_(policy), pins_(pins), now_(now) {}

  LayerRules run() {
    text_.chain(name_ + "_unmatched",
                {set_mark(EgressWord::unmatched), fmt::format("goto deny_{}", name_)});
    kind_chain("local", AddressKind::local);
    kind_chain("metadata", AddressKind::metadata);

    Body body{"meta mark set 0"};
    for (const bool v6 : {false, true}) lookups(body, "deny", v6, deny_levels(policy_, v6));
    if (body.size() > 1) body.push_back(fmt::format("meta mark != 0 goto deny_{}", name_));
    for (const bool v6 : {false, true}) {
      for (const std::string_view kind : {"metadata", "local"}) {  // some metadata lies in local
        body.push_back(fmt::format("{} @{}{} goto {}_{}", address_key(v6), kind, family_digit(v6),
                                   name_, kind));
      }
    }
    if (policy_.internet) {
      body.push_back(set_mark(EgressWord::internet));
    }
    Body by_address;
    for (const bool v6 : {false, true}) {
      lookups(by_address, "allow", v6, allow_levels(policy_, AddressKind::global, v6));
    }
    Body by_name;
    pin_lookups(by_name);
    std::ranges::copy(by_address, std::back_inserter(body));
    std::ranges::copy(by_name, std::back_inserter(body));
    body.push_back(unmatched());
    text_.chain("layer_" + name_, body);
    if (policy_.sni_check) named_chain(by_address, by_name);
    return {text_.take(), std::move(groups_)};
  }

 private:
  using Body = std::vector<std::string>;
  using Service = std::pair<core::EgressProtocol, std::vector<core::PortRange>>;

  std::string unmatched() const { return fmt::format("meta mark 0 goto {}_unmatched", name_); }

  void named_chain(const Body& by_address, const Body& by_name) {
    Body body{"meta mark set 0"};
    std::ranges::copy(by_address, std::back_inserter(body));
    body.emplace_back("meta mark != 0 meta mark set 0 return");
    std::ranges::copy(by_name, std::back_inserter(body));
    text_.chain("named_" + name_, body);
  }

  // What rules inside the ranges of this kind open; nothing else opens such addresses.
  void kind_chain(std::string_view kind_name, AddressKind kind) {
    Body body;
    for (const bool v6 : {false, true}) {
      lookups(body, kind_name, v6, allow_levels(policy_, kind, v6));
    }
    body.push_back(unmatched());
    text_.chain(fmt::format("{}_{}", name_, kind_name), body);
  }

  // Maps per level, and the statements that look into them. Each one that matches replaces the
  // mark.
  void lookups(Body& body, std::string_view what, bool v6, const std::vector<MapLevel>& levels) {
    for (std::size_t i = 0; i < levels.size(); i++) {
      const std::string name = fmt::format("{}_{}{}_{}", name_, what, family_digit(v6), i);
      if (!levels[i].protocols.empty()) {
        write_map(name + "_protocols", v6, " . inet_proto", levels[i].protocols);
        body.push_back(fmt::format("meta mark set {} . {} map @{}_protocols", address_key(v6),
                                   kProtocol, name));
      }
      if (!levels[i].ports.empty()) {
        write_map(name + "_ports", v6, " . inet_proto . inet_service", levels[i].ports);
        for (const std::uint8_t protocol : {core::kTcp, core::kUdp}) {
          body.push_back(fmt::format("meta l4proto {} meta mark set {} . {} . {} map @{}_ports",
                                     protocol, address_key(v6), kProtocol, kPort, name));
        }
      }
    }
  }

  template <class Element>
  void write_map(const std::string& name, bool v6, std::string_view more_key,
                 const std::vector<Element>& elements) {
    std::vector<std::string> lines;
    for (const Element& element : elements) lines.push_back(to_nft(element));
    text_.elements("map", name,
                   fmt::format("{}{} : mark; flags interval", address_type(v6), more_key), lines);
  }

  // Domain rules with the same protocol and ports share their pins.
  void pin_lookups(Body& body) {
    std::map<Service, std::vector<std::uint32_t>> services;
    for (std::size_t i = 0; i < policy_.rules.size(); i++) {
      const EgressRule& rule = policy_.rules[i];
      if (rule.action != core::EgressAction::allow) continue;
      if (!std::holds_alternative<core::DomainPattern>(rule.target)) continue;
      services[{rule.protocol, rule.ports}].push_back(static_cast<std::uint32_t>(i) + 1);
    }
    for (const auto& [service, rules] : services) {
      const std::size_t number = groups_.size();
      PinGroup& group = groups_.emplace_back();
      group.layer = layer_;
      group.rules = rules;
      group.map4 = fmt::format("{}_pins4_{}", name_, number);
      group.map6 = fmt::format("{}_pins6_{}", name_, number);
      for (const bool v6 : {false, true}) {
        pin_map(group, v6);
        body.push_back(fmt::format("{} meta mark set {} map @{}",
                                   service_match(policy_.rules[rules.front() - 1], v6),
                                   address_key(v6), group.map(v6)));
      }
    }
  }

  static std::string service_match(const EgressRule& rule, bool v6) {
    if (rule.protocol == core::EgressProtocol::icmp) {
      return fmt::format("{} {}", kProtocol, v6 ? core::kIcmp6 : core::kIcmp);
    }
    const int protocol = rule.protocol == core::EgressProtocol::tcp ? core::kTcp : core::kUdp;
    std::vector<std::string> services;
    for (const core::PortRange& range : merged(rule.ports)) {
      services.push_back(fmt::format("{} . {}", protocol, to_nft(range)));
    }
    return fmt::format("meta l4proto {} {} . {} {{ {} }}", protocol, kProtocol, kPort,
                       fmt::join(services, ", "));
  }

  void pin_map(const PinGroup& group, bool v6) {
    std::vector<std::string> elements;
    std::optional<core::IpAddress> done;
    for (const core::EgressPin& pin : pins_.all()) {  // sorted by address
      if (pin.address.v6 != v6 || done == pin.address) continue;
      done = pin.address;
      std::string element = pin_element(group, pins_, pin.address, now_);
      if (!element.empty()) elements.push_back(std::move(element));
    }
    text_.elements(
        "map", group.map(v6),
        fmt::format("{} : mark; flags timeout; size {}", address_type(v6), kMostPinsInKernel),
        elements);
  }

  EgressLayer layer_;
  std::string name_;
  const EgressPolicy& policy_;
  const core::EgressPins& pins_;
  core::Time now_;
  NftText text_;
  std::vector<PinGroup> groups_;
};

}  // namespace

LayerRules layer_rules(EgressLayer layer, const EgressPolicy& policy, const core::EgressPins& pins,
                       core::Time now) {
  return LayerWriter(layer, policy, pins, now).run();
}

std::string pin_element(const PinGroup& group, const core::EgressPins& pins,
                        const core::IpAddress& address, core::Time now) {
  const auto latest = pins.latest(group.layer, group.rules, address);
  if (!latest || latest->expires <= now) return "";
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(latest->expires - now);
  return fmt::format("{} timeout {}s : {}", to_string(address), seconds.count(), latest->rule);
}

}  // namespace firebreak::egress
