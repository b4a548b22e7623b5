#include "egress/ruleset.h"

#include <algorithm>
#include <set>

#include "egress/layer_rules.h"
#include "egress/nft_text.h"
#include "wire/crypto.h"

namespace firebreak::egress {

namespace {

using core::AddressKind;
using core::EgressLayer;
using core::EgressWord;

constexpr std::size_t kMaxLinkName = 15;
constexpr std::string_view kTls = "meta l4proto tcp ct original proto-dst 443";
static_assert(core::kCheckedPort == 443);
constexpr std::string_view kNeighbours = "{ nd-neighbor-solicit, nd-neighbor-advert }";

std::string mac_text(const MacAddress& mac) {
  return fmt::format("{:02x}", fmt::join(mac, ":"));
}

bool link_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxLinkName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// Blocks without overlap: what lies in another one is left out.
std::vector<std::string> outermost(std::vector<core::Cidr> blocks) {
  std::ranges::sort(blocks);
  std::vector<std::string> out;
  const core::Cidr* last = nullptr;
  for (const core::Cidr& block : blocks) {
    if (last != nullptr && last->contains(block)) continue;
    last = &block;
    out.push_back(to_string(block));
  }
  return out;
}

std::vector<core::Cidr> of_family(const std::vector<core::Cidr>& blocks, bool v6) {
  std::vector<core::Cidr> out;
  std::ranges::copy_if(blocks, std::back_inserter(out),
                       [v6](const core::Cidr& block) { return block.base.v6 == v6; });
  return out;
}

std::vector<core::Cidr> special_of(AddressKind kind, bool v6) {
  std::vector<core::Cidr> out;
  for (const core::SpecialBlock& special : core::special_blocks()) {
    if (special.kind == kind && special.block.base.v6 == v6) out.push_back(special.block);
  }
  return out;
}

class Compiler {
 public:
  explicit Compiler(const RulesetInput& input)
      : in_(input),
        wiring_(input.wiring),
        checks_(core::checks_server_names(input.stack)),
        tls_gate_(checks_ || input.wiring.tls_gate) {}

  Ruleset run() {
    text_.open_table(kTable);
    text_.line("counter denied {{ packets {} bytes 0; }}", in_.denied_packets);
    text_.chain(identity_chain(in_.stack), {});
    for (const bool v6 : {false, true}) places(v6);
    layer(EgressLayer::maximum, in_.stack.maximum);
    layer(EgressLayer::policy, in_.stack.policy);
    denials();
    text_.chain("gate", in_.gate_closed ? Body{"drop"} : Body{});
    decisions();
    if (checks_) to_tls_gate();
    from_guest();
    forwarded();
    gateway();
    text_.chain("masked", {"type nat hook postrouting priority srcnat; policy accept",
                           fmt::format("oifname \"{}\" masquerade", wiring_.uplink)});
    text_.line("}}");
    out_.script = text_.take();
    return std::move(out_);
  }

 private:
  using Body = std::vector<std::string>;

  void places(bool v6) {
    const std::string type = fmt::format("{}; flags interval", address_type(v6));
    auto set = [&](std::string_view name, std::vector<core::Cidr> blocks) {
      text_.elements("set", fmt::format("{}{}", name, family_digit(v6)), type,
                     outermost(std::move(blocks)));
    };
    set("local", special_of(AddressKind::local, v6));
    set("metadata", special_of(AddressKind::metadata, v6));
    set("off_limits", of_family(in_.stack.off_limits, v6));

    // One map per depth of nesting; what matches in a later one is more specific.
    const std::vector<core::Cidr> never = special_of(AddressKind::never, v6);
    std::vector<std::vector<std::string>> levels;
    for (const core::SpecialBlock& special : core::special_blocks()) {
      if (special.kind != AddressKind::never || special.block.base.v6 != v6) continue;
      const auto depth = static_cast<std::size_t>(std::ranges::count_if(
          never, [&](const core::Cidr& other) { return other.contains(special.block); }));
      levels.resize(std::max(levels.size(), depth));
      levels[depth - 1].push_back(
          fmt::format("{} : {}", to_string(special.block),
                      static_cast<std::uint32_t>(core::never_word(special))));
    }
    never_levels_[v6 ? 1 : 0] = levels.size();
    for (std::size_t i = 0; i < levels.size(); i++) {
      text_.elements("map", fmt::format("never{}_{}", family_digit(v6), i),
                     fmt::format("{} : mark; flags interval", address_type(v6)), levels[i]);
    }
  }

  void layer(EgressLayer which, const core::EgressPolicy& policy) {
    LayerRules rules = layer_rules(which, policy, in_.pins, in_.now);
    text_.line("{}", rules.text);
    std::ranges::move(rules.groups, std::back_inserter(out_.groups));
  }

  // Answers go to the guest only: what comes from outside and is denied is dropped.
  void denials() {
    using enum EgressLayer;
    for (const EgressLayer which : {always, maximum, policy, wiring}) {
      text_.chain(fmt::format("deny_{}", to_string(which)),
                  {fmt::format("iifname != \"{}\" counter name denied drop", wiring_.tap),
                   log_statement(false, which), "goto refuse"});
    }
    Body refuse{"counter name denied"};
    for (std::string& answer : refusal()) refuse.push_back(std::move(answer));
    text_.chain("refuse", refuse);
    // The answer would go to somebody who did not ask.
    text_.chain("spoofed", {set_mark(EgressWord::spoofed), log_statement(false, wiring),
                            "counter name denied drop"});
    text_.chain("source_routed", {set_mark(EgressWord::source_route), "goto deny_wiring"});
    // Packets of connections that nobody knows, after a resume or a flush: the guest learns it at
    // once. Not logged, because nothing was decided.
    text_.chain("stray", {"meta l4proto tcp reject with tcp reset", "drop"});
  }

  // Before routing, because routing drops some of these silently, and because the gateway is meant
  // as well.
  void from_guest() {
    Body body{"type filter hook prerouting priority mangle; policy accept",
              fmt::format("iifname != \"{}\" accept", wiring_.tap),
              "jump gate",
              "meta mark set 0",
              fmt::format("ether saddr != {} goto spoofed", mac_text(wiring_.guest_mac)),
              fmt::format("ip saddr != {} goto spoofed", to_string(wiring_.guest4))};
    if (wiring_.guest6) {
      body.push_back(fmt::format("ip6 saddr != {} goto link_source", to_string(*wiring_.guest6)));
      text_.chain("link_source",
                  {fmt::format("ip6 saddr fe80::/10 icmpv6 type {} accept", kNeighbours),
                   "ip6 saddr :: icmpv6 type nd-neighbor-solicit accept",
                   // Every IPv6 host says these on its own.
                   "ip6 saddr { ::, fe80::/10 } icmpv6 type { nd-router-solicit, "
                   "mld-listener-report, mld2-listener-report } drop",
                   "goto spoofed"});
    } else {
      body.emplace_back("meta nfproto ipv6 goto spoofed");
    }
    for (const std::string_view hops : {"ip option lsrr", "ip option ssrr", "exthdr rt"}) {
      body.push_back(fmt::format("{} exists goto source_routed", hops));
    }
    body.push_back(fmt::format("ip daddr {} accept", to_string(wiring_.gateway4)));
    if (wiring_.gateway6) {
      body.push_back(fmt::format("ip6 daddr {} accept", to_string(*wiring_.gateway6)));
      body.push_back(fmt::format(
          "ip6 daddr {{ fe80::/10, ff02::1:ff00:0/104 }} icmpv6 type {} accept", kNeighbours));
    }
    // A guest that wakes up announces itself; nobody else is there to be told.
    body.emplace_back("ip6 daddr ff02::1 icmpv6 type nd-neighbor-advert drop");
    for (const bool v6 : {false, true}) {
      const std::string_view address = v6 ? "ip6 daddr" : "ip daddr";
      for (std::size_t i = 0; i < never_levels_[v6 ? 1 : 0]; i++) {
        body.push_back(
            fmt::format("meta mark set {} map @never{}_{}", address, family_digit(v6), i));
      }
      body.push_back(fmt::format("{} @off_limits{} {}", address, family_digit(v6),
                                 set_mark(EgressWord::off_limits)));
    }
    body.emplace_back("meta mark != 0 goto deny_always");
    // Before their destination is replaced, so that the log has the one that was meant.
    if (tls_gate_) body.emplace_back("ct status dnat goto decide_again");
    if (checks_) body.push_back(fmt::format("ct state new {} goto tls_begins", kTls));
    text_.chain("from_guest", body);
  }

  void decisions() {
    // Connections that this rule set has decided carry its generation.
    const std::string decided = fmt::format("ct mark {} accept", in_.generation);
    text_.chain("layers", {"jump layer_maximum", "jump layer_policy",
                           fmt::format("ct mark set {} accept", in_.generation)});
    if (tls_gate_) text_.chain("decide_again", {decided, "goto layers"});
    Body decide{decided};
    if (checks_) {
      // What would have to go through the gate, and does not: it began under another policy.
      text_.chain("unchecked", {set_mark(EgressWord::unchecked), "goto deny_policy"});
      Body named{"meta mark set 0"};
      for (const auto& [layer, policy] : {std::pair(EgressLayer::maximum, &in_.stack.maximum),
                                          std::pair(EgressLayer::policy, &in_.stack.policy)}) {
        if (!policy->sni_check) continue;
        named.push_back(fmt::format("jump named_{}", to_string(layer)));
        named.emplace_back("meta mark != 0 return");
      }
      text_.chain("named", named);
      text_.chain("decide_tls", {"jump named", "meta mark != 0 goto unchecked", "goto layers"});
      decide.push_back(fmt::format("{} goto decide_tls", kTls));
    }
    decide.emplace_back("goto layers");
    text_.chain("decide", decide);
  }

  // A connection that only a name opens goes to the gate, which asks for the name; but only if both
  // layers allow it. The mark tells the meter, and the chain that replaces the destination.
  void to_tls_gate() {
    text_.chain("tls_begins",
                {"jump named", "meta mark 0 accept", "jump layer_maximum", "jump layer_policy",
                 fmt::format("meta mark set {} accept", kToTlsGate)});
    Body body{"type nat hook prerouting priority dstnat; policy accept",
              fmt::format("iifname != \"{}\" accept", wiring_.tap),
              fmt::format("meta mark != {} accept", kToTlsGate),
              fmt::format("meta nfproto ipv4 meta l4proto tcp dnat ip to {}:{}",
                          to_string(wiring_.gateway4), kTlsGatePort)};
    if (wiring_.gateway6)
      body.push_back(fmt::format("meta nfproto ipv6 meta l4proto tcp dnat ip6 to [{}]:{}",
                                 to_string(*wiring_.gateway6), kTlsGatePort));
    text_.chain("to_tls_gate", body);
  }

  void forwarded() {
    text_.chain("outward",
                {"ct state invalid goto stray", "ct state untracked drop", "goto decide"});
    text_.chain("inward", {"ct state != { established, related } drop", "goto decide"});
    // Back into the tap, or by a link that is not ours.
    text_.chain("no_way_out", {set_mark(EgressWord::off_limits), "goto deny_wiring"});
    text_.chain(
        "forwarded",
        {"type filter hook forward priority filter; policy drop",
         fmt::format("iifname \"{}\" oifname \"{}\" goto outward", wiring_.tap, wiring_.uplink),
         fmt::format("iifname \"{}\" goto no_way_out", wiring_.tap),
         fmt::format("iifname \"{}\" oifname \"{}\" goto inward", wiring_.uplink, wiring_.tap)});
  }

  // The namespace itself: a resolver, neighbours, and answers.
  void gateway() {
    Body guest{"ct state invalid drop",
               fmt::format("ip daddr {} udp dport 53 accept", to_string(wiring_.gateway4)),
               fmt::format("ip daddr {} tcp dport 53 accept", to_string(wiring_.gateway4))};
    if (wiring_.gateway6) {
      guest.push_back(fmt::format("icmpv6 type {} accept", kNeighbours));
      for (const std::string_view protocol : {"udp", "tcp"}) {
        guest.push_back(
            fmt::format("ip6 daddr {} {} dport 53 accept", to_string(*wiring_.gateway6), protocol));
      }
    }
    if (tls_gate_) {
      // Decided before routing. Only here, so that nothing counts as decided that went elsewhere.
      guest.push_back(
          fmt::format("ct status dnat ct state new ct mark set {} accept", in_.generation));
      guest.push_back(fmt::format("ct status dnat ct mark {} accept", in_.generation));
    }
    guest.push_back(set_mark(EgressWord::gateway));
    guest.emplace_back("goto deny_wiring");
    text_.chain("guest_to_gateway", guest);
    Body to{"type filter hook input priority filter; policy drop",
            fmt::format("iifname \"{}\" goto guest_to_gateway", wiring_.tap),
            fmt::format("iifname \"{}\" icmpv6 type {} accept", wiring_.uplink, kNeighbours)};
    Body from{"type filter hook output priority filter; policy drop"};
    if (tls_gate_) {
      // The gate's own connections to where the guest wanted to go: decided as the guest's are.
      to.push_back(fmt::format("iifname \"{}\" ct state established {} goto decide_again",
                               wiring_.uplink, kTls));
      to.push_back(fmt::format("iifname \"{}\" ct state related accept", wiring_.uplink));
      from.push_back(fmt::format("oifname \"{}\" {} goto decide_again", wiring_.uplink, kTls));
    }
    text_.chain("to_gateway", to);
    from.emplace_back("ct state established,related accept");
    from.push_back(fmt::format("icmpv6 type {} accept", kNeighbours));
    // Denials of packets that belong to no connection.
    for (const std::string_view answer :
         {"tcp flags & rst == rst", "icmp type destination-unreachable",
          "icmpv6 type destination-unreachable"}) {
      from.push_back(fmt::format("oifname \"{}\" {} accept", wiring_.tap, answer));
    }
    text_.chain("from_gateway", from);
  }

  const RulesetInput& in_;
  const Wiring& wiring_;
  bool checks_;    // some layer wants server names checked
  bool tls_gate_;  // there may be connections through the gate
  NftText text_;
  Ruleset out_;
  std::array<std::size_t, 2> never_levels_{};  // by family
};

Result<> check(const RulesetInput& input) {
  const Wiring& wiring = input.wiring;
  if (!link_name(wiring.tap) || !link_name(wiring.uplink) || wiring.tap == wiring.uplink) {
    return fail(Code::invalid, "names of links have 1 to 15 letters a-z, digits, '-' and '_'");
  }
  if (wiring.guest4.v6 || wiring.gateway4.v6 ||
      wiring.guest6.has_value() != wiring.gateway6.has_value() ||
      (wiring.guest6 && (!wiring.guest6->v6 || !wiring.gateway6->v6))) {
    return fail(Code::invalid, "guest and gateway need an address each, of the same families");
  }
  if (input.generation == 0) return fail(Code::invalid, "a generation is not 0");
  FB_TRY(core::check(input.stack.maximum));
  return core::check(input.stack.policy);
}

}  // namespace

Result<Ruleset> compile(const RulesetInput& input) {
  if (auto ok = check(input); !ok) return fail(std::move(ok).error(), "compiling egress rules");
  return Compiler(input).run();
}

std::string drop_all_ruleset(std::uint64_t denied_packets) {
  NftText text;
  text.open_table(kTable);
  text.line("counter denied {{ packets {} bytes 0; }}", denied_packets);
  for (const std::string_view hook : {"prerouting", "forward", "output"}) {
    text.chain(fmt::format("no_{}", hook),
               {fmt::format("type filter hook {} priority filter; policy drop", hook)});
  }
  text.line("}}");
  return text.take();
}

std::string identity_chain(const core::EgressStack& stack) {
  constexpr std::size_t kDigits = 16;
  return "of_" +
         wire::sha256_hex(to_json(stack.maximum) + "\n" + to_json(stack.policy)).substr(0, kDigits);
}

std::string open_gate_script() {
  return fmt::format("flush chain inet {} gate\n", kTable);
}

std::string add_pins_script(const Ruleset& ruleset, const core::EgressPins& before,
                            const core::EgressPins& pins, const std::vector<core::EgressPin>& added,
                            core::Time now) {
  NftText text;
  std::set<std::string> done;
  for (const core::EgressPin& pin : added) {
    for (const PinGroup& group : ruleset.groups) {
      if (group.layer != pin.layer || !std::ranges::binary_search(group.rules, pin.rule)) continue;
      const std::string element = pin_element(group, pins, pin.address, now);
      const std::string& map = group.map(pin.address.v6);
      const std::string address = to_string(pin.address);
      if (element.empty() || !done.insert(map + address).second) continue;
      // Older kernels do not change the end of an element that exists: it is taken out and put in
      // again. It may be gone by itself, so it is made sure of first, all in one transaction.
      if (const auto old = before.latest(group.layer, group.rules, pin.address)) {
        text.line("add element inet {} {} {{ {} : {} }}", kTable, map, address, old->rule);
        text.line("delete element inet {} {} {{ {} }}", kTable, map, address);
      }
      text.line("add element inet {} {} {{ {} }}", kTable, map, element);
    }
  }
  return text.take();
}

std::string flush_pins_script(const Ruleset& ruleset) {
  NftText text;
  for (const PinGroup& group : ruleset.groups) {
    text.line("flush map inet {} {}\nflush map inet {} {}", kTable, group.map4, kTable, group.map6);
  }
  return text.take();
}

std::optional<LogLabel> parse_log(std::string_view prefix, std::uint32_t mark) {
  using enum EgressLayer;
  for (const EgressLayer layer : {always, maximum, policy, wiring}) {
    for (const bool allowed : {false, true}) {
      if (prefix != fmt::format("{} {}", allowed ? 'a' : 'd', to_string(layer))) continue;
      return LogLabel{allowed, {layer, mark}};
    }
  }
  return std::nullopt;
}

}  // namespace firebreak::egress
