#include "core/egress.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/egress_decision.h"

namespace firebreak::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

IpAddress ip(std::string_view text) {
  const auto address = parse_address(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress{});
}

EgressPolicy policy(const std::string& members) {
  auto read = egress_policy_from_json(R"({"name":"p",)" + members + "}");
  EXPECT_TRUE(read) << members << ": " << read.error().message;
  return read.value_or(no_egress());
}

EgressPolicy rules(const std::string& list) {
  return policy(R"("rules":[)" + list + "]");
}

std::string refusal(const std::string& members) {
  auto read = egress_policy_from_json(R"({"name":"p",)" + members + "}");
  EXPECT_FALSE(read) << members;
  return read ? "" : read.error().message;
}

std::string rule_refusal(const std::string& rule) {
  return refusal(R"("rules":[)" + rule + "]");
}

EgressStack under_internet(EgressPolicy policy) {
  return {.maximum = internet_egress(), .policy = std::move(policy), .off_limits = {}};
}

constexpr Time kNow{Millis(1'000'000)};

std::string verdict(const EgressStack& stack, std::string_view address, std::uint8_t protocol,
                    std::uint16_t port, const EgressPins& pins = {}) {
  const PacketVerdict out = decide_packet(stack, pins, {ip(address), protocol, port}, kNow);
  return (out.allowed ? "a " : "d ") + to_string(out.label);
}

TEST(Address, ReadsAndWritesBlocks) {
  EXPECT_EQ(to_string(parse_cidr("10.0.0.0/8").value()), "10.0.0.0/8");
  EXPECT_EQ(to_string(parse_cidr("2001:DB8::/32").value()), "2001:db8::/32");
  EXPECT_EQ(to_string(parse_cidr("1.2.3.4").value()), "1.2.3.4/32");
  EXPECT_THAT(parse_cidr("10.0.0.1/8").error().message, HasSubstr("write 10.0.0.0/8"));
  for (const char* bad : {"", "/", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "::/129",
                          "fe80::1%eth0", "010.0.0.1", "1.2.3.4/8/8", "0x7f.0.0.1", "1.2.3.4 "}) {
    EXPECT_FALSE(parse_cidr(bad)) << bad;
  }
  EXPECT_FALSE(parse_address(std::string_view("1.2.3.4\0x", 9)));
  EXPECT_EQ(to_string(parse_cidr("10.0.0.0/9").value().last()), "10.127.255.255");
  EXPECT_EQ(to_string(parse_cidr("2001:db8::/33").value().last()),
            "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff");
  EXPECT_TRUE(parse_cidr("::/0").value().contains(ip("ffff::")));
  EXPECT_FALSE(parse_cidr("::/0").value().contains(ip("1.2.3.4")));
}

TEST(Address, KnowsSpecialPlaces) {
  for (const char* text :
       {"0.1.2.3",     "127.0.0.53",      "169.254.169.254", "224.0.0.251",  "239.255.255.255",
        "240.0.0.1",   "255.255.255.255", "192.88.99.1",     "::",           "::1",
        "::127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1",  "64:ff9b:1::1", "2002:a00:1::",
        "2001::1",     "fe80::1",         "febf::1",         "fec0::1",      "ff02::1",
        "100::1"}) {
    EXPECT_EQ(kind_of(ip(text)), AddressKind::never) << text;
  }
  for (const char* text : {"10.1.2.3", "100.64.0.1", "172.31.255.255", "192.168.0.1", "198.19.0.1",
                           "192.0.0.1", "fc00::1", "fdff::1"}) {
    EXPECT_EQ(kind_of(ip(text)), AddressKind::local) << text;
  }
  for (const char* text : {"100.100.100.200", "168.63.129.16", "fd00:ec2::254"}) {
    EXPECT_EQ(kind_of(ip(text)), AddressKind::metadata) << text;
  }
  for (const char* text : {"1.1.1.1", "192.0.2.1", "198.51.100.7", "203.0.113.1", "172.32.0.1",
                           "100.128.0.1", "2001:db8::1", "2606:4700::1111", "2001:4860::8888"}) {
    EXPECT_EQ(kind_of(ip(text)), AddressKind::global) << text;
  }
  EXPECT_EQ(kind_of(parse_cidr("0.0.0.0/0").value()), AddressKind::global);
  EXPECT_EQ(kind_of(parse_cidr("8.0.0.0/5").value()), AddressKind::global);
  EXPECT_EQ(kind_of(parse_cidr("10.0.0.0/8").value()), AddressKind::local);
  EXPECT_EQ(kind_of(parse_cidr("fd00:ec2::/32").value()), AddressKind::local);
}

TEST(EgressNames, PatternsAndNames) {
  auto matched = [](std::string_view pattern, std::string_view name) {
    return matches(parse_domain_pattern(pattern).value(), normal_name(name).value());
  };
  EXPECT_TRUE(matched("Example.COM", "example.com."));
  EXPECT_FALSE(matched("example.com", "www.example.com"));
  EXPECT_TRUE(matched("*.example.com", "a.b.example.com"));
  EXPECT_FALSE(matched("*.example.com", "example.com"));
  EXPECT_FALSE(matched("*.example.com", "badexample.com"));
  EXPECT_FALSE(matched("*.example.com", "example.com.evil.org"));
  EXPECT_TRUE(matched("xn--bcher-kva.example", "XN--bcher-kva.example"));

  const std::string label(63, 'a');
  EXPECT_TRUE(normal_name(label + ".b"));
  EXPECT_FALSE(normal_name(label + "a.b"));
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  EXPECT_EQ(longest.size(), 253U);
  EXPECT_TRUE(normal_name(longest));
  EXPECT_FALSE(normal_name(longest + "b"));
  for (const char* bad : {"", ".", "a..b", ".a", "a b", "b\xc3\xbc.de", "*", "*.", "*.*.com",
                          "a.*.com", "a*.com", "1.2.3.4", "*.1.2.3.4", "::1", "a/b"}) {
    EXPECT_FALSE(parse_domain_pattern(bad)) << bad;
  }
}

TEST(EgressJson, RoundTrips) {
  const EgressPolicy all = policy(
      R"("rules":[{"action":"allow","domain":"*.Example.com","ports":[443,"8000-8100"]},
      {"action":"deny","cidr":"203.0.113.0/24","protocol":"udp"},
      {"action":"deny","domain":"bad.example.com"},{"action":"deny","any":true,"protocol":"icmp"}],
      "sniCheck":true,"maxBytes":1000000,"maxConnections":7)");
  EXPECT_TRUE(all.sni_check);
  EXPECT_EQ(all.rules.size(), 4U);
  EXPECT_EQ(all.rules[0].protocol, EgressProtocol::tcp);
  EXPECT_THAT(all.rules[0].ports, ElementsAre(PortRange{443, 443}, PortRange{8000, 8100}));
  EXPECT_EQ(egress_policy_from_json(to_json(all)).value(), all);
  EXPECT_EQ(egress_policy_from_json(to_json(internet_egress())).value(), internet_egress());
  EXPECT_EQ(egress_policy_from_json(to_json(no_egress())).value(), no_egress());

  const EgressPolicy web = rules(R"({"action":"allow","domain":"example.com"})");
  EXPECT_THAT(web.rules[0].ports, ElementsAre(PortRange{80, 80}, PortRange{443, 443}));
}

TEST(EgressJson, RefusesWithPathAndRepair) {
  EXPECT_THAT(refusal(R"("internets":true)"), HasSubstr("'internets' is not known here; use name"));
  EXPECT_THAT(refusal(R"("sniCheck":true)"), HasSubstr("no rule allows one there"));
  EXPECT_THAT(refusal(R"("sniCheck":1)"), HasSubstr("'sniCheck' must be"));
  EXPECT_THAT(refusal(R"("sniCheck":true,"rules":[{"action":"allow","cidr":"1.2.3.4"},
                      {"action":"allow","domain":"a.b","ports":[80,8443]},
                      {"action":"deny","domain":"c.b"}])"),
              HasSubstr("no rule allows one there"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","cidr":"10.0.0.1/8"})"),
              HasSubstr("'rules[0].cidr' has bits set behind its prefix; write 10.0.0.0/8"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","any":true,"port":80})"),
              HasSubstr("'rules[0].port' is not known"));
  EXPECT_THAT(rule_refusal(R"({"action":"permit","any":true})"), HasSubstr("rules[0].action"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow"})"), HasSubstr("one of the three"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","any":true,"cidr":"::/0"})"),
              HasSubstr("one of the three"));
  for (const char* ports : {"0", "65536", "-1", "1.5", R"("90-80")", R"("80-")", R"("x")", "[]"}) {
    EXPECT_THAT(
        rule_refusal(R"({"action":"allow","any":true,"ports":[)" + std::string(ports) + "]}"),
        HasSubstr("rules[0].ports"))
        << ports;
  }
  EXPECT_THAT(rule_refusal(R"({"action":"allow","any":true,"ports":[]})"), HasSubstr("is empty"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","any":true,"protocol":"icmp","ports":[1]})"),
              HasSubstr("ICMP has none"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","domain":"*"})"), HasSubstr("every name"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","domain":"a.b","ports":["1-60"]})"),
              HasSubstr("53 and 853"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","domain":"a.b","protocol":"any"})"),
              HasSubstr("one protocol"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","domain":"a.b","protocol":"udp"})"),
              HasSubstr("needs them"));
  EXPECT_THAT(rule_refusal(R"({"action":"deny","domain":"a.b","ports":[80]})"),
              HasSubstr("not resolved at all"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","cidr":"127.0.0.0/8"})"),
              HasSubstr("no policy can open"));
  EXPECT_THAT(refusal(R"("internet":true,"rules":[{"action":"allow","domain":"a.b"}])"),
              HasSubstr("names would decide"));
  EXPECT_THAT(rule_refusal(R"({"action":"allow","any":true},{"action":"allow","domain":"a.b"})"),
              HasSubstr("names would decide"));
  EXPECT_THAT(refusal(R"("maxConnections":5000)"), HasSubstr("at most 4096"));
  for (const char* text : {R"({"name":"NO_EGRESS","internet":true})", R"({"name":"a b"})",
                           R"({"name":""})", R"({})", "[]", "{"}) {
    EXPECT_FALSE(egress_policy_from_json(text)) << text;
  }
}

TEST(EgressJson, HasLimits) {
  EgressPolicy many = no_egress();
  many.name = "many";
  many.rules.resize(kMaxEgressRules);
  EXPECT_TRUE(egress_policy_from_json(to_json(many)));
  many.rules.resize(kMaxEgressRules + 1);
  EXPECT_FALSE(check(many));
  EXPECT_FALSE(egress_policy_from_json(to_json(many)));

  EgressPolicy services = no_egress();
  services.name = "services";
  for (std::uint16_t i = 0; i <= kMaxDomainServices; i++) {
    const auto port = static_cast<std::uint16_t>(1000 + i);
    services.rules.push_back(
        {EgressAction::allow, DomainPattern{"a.b", false}, EgressProtocol::tcp, {{port, port}}});
  }
  EXPECT_FALSE(check(services));
  services.rules.pop_back();
  EXPECT_TRUE(check(services));

  EgressPolicy ports = no_egress();
  ports.name = "ports";
  ports.rules.push_back({.target = AnyTarget{}, .ports = {}});
  ports.rules[0].ports.resize(kMaxPortRanges + 1, {1, 2});
  EXPECT_FALSE(check(ports));
}

TEST(EgressNames, DecidesByBothLayers) {
  const EgressPolicy run = rules(
      R"({"action":"allow","domain":"*.example.com"},{"action":"allow","domain":"api.example.com"},
         {"action":"deny","domain":"*.secret.example.com"})");
  const NameDecision yes = decide_name(under_internet(run), "API.Example.com.");
  EXPECT_TRUE(yes.allowed);
  EXPECT_THAT(yes.policy_rules, ElementsAre(1, 2));
  EXPECT_THAT(yes.maximum_rules, IsEmpty());
  EXPECT_EQ(to_string(yes.label), "policy:1");

  const NameDecision denied = decide_name(under_internet(run), "a.secret.example.com");
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(to_string(denied.label), "policy:3");
  EXPECT_THAT(denied.reason, HasSubstr("rule 3"));
  EXPECT_EQ(to_string(decide_name(under_internet(run), "example.com").label), "policy:unmatched");
  EXPECT_EQ(to_string(decide_name(under_internet(run), "a..b").label), "always:bad-name");

  EgressStack narrowed{.maximum = rules(R"({"action":"allow","domain":"*.example.com"})"),
                       .policy = internet_egress(),
                       .off_limits = {}};
  EXPECT_TRUE(decide_name(narrowed, "a.example.com").allowed);
  EXPECT_THAT(decide_name(narrowed, "a.example.com").maximum_rules, ElementsAre(1));
  EXPECT_EQ(to_string(decide_name(narrowed, "evil.org").label), "maximum:unmatched");
}

// Looking up names is a way out: a policy that opens addresses alone, or nothing, has none.
TEST(EgressNames, AreDeniedWithoutInternet) {
  EXPECT_TRUE(decide_name(under_internet(internet_egress()), "example.com").allowed);
  EXPECT_TRUE(
      decide_name(under_internet(rules(R"({"action":"allow","any":true,"ports":[443]})")), "a.b")
          .allowed);
  EXPECT_FALSE(decide_name(under_internet(no_egress()), "example.com").allowed);
  EXPECT_FALSE(
      decide_name(under_internet(rules(R"({"action":"allow","cidr":"1.2.3.0/24"})")), "a.b")
          .allowed);
  EXPECT_FALSE(decide_name({}, "example.com").allowed);
}

TEST(EgressPackets, InternetIsGlobalOnly) {
  EgressStack stack = under_internet(internet_egress());
  stack.off_limits = {parse_cidr("198.51.100.0/24").value()};
  EXPECT_EQ(verdict(stack, "1.1.1.1", kUdp, 53), "a policy:internet");
  EXPECT_EQ(verdict(stack, "203.0.113.1", kTcp, 80), "a policy:internet");
  EXPECT_EQ(verdict(stack, "2606:4700::1111", kIcmp6, 0), "a policy:internet");
  EXPECT_EQ(verdict(stack, "1.1.1.1", 132, 0), "a policy:internet");
  EXPECT_EQ(verdict(stack, "10.0.0.1", kTcp, 80), "d maximum:unmatched");
  EXPECT_EQ(verdict(stack, "198.51.100.9", kTcp, 80), "d always:off-limits");
  EXPECT_EQ(verdict(stack, "169.254.169.254", kTcp, 80), "d always:link-local");
  EXPECT_EQ(verdict(stack, "::ffff:1.1.1.1", kTcp, 80), "d always:embedded-ipv4");
  EXPECT_EQ(verdict(under_internet(no_egress()), "1.1.1.1", kTcp, 80), "d policy:unmatched");
}

TEST(EgressPackets, PrivateNeedsARuleInsideTheRange) {
  const EgressPolicy wide = rules(R"({"action":"allow","cidr":"0.0.0.0/0"})");
  EXPECT_EQ(verdict({wide, wide, {}}, "10.0.0.1", kTcp, 80), "d maximum:unmatched");
  EXPECT_EQ(verdict({wide, wide, {}}, "9.9.9.9", kTcp, 80), "a policy:1");
  const EgressPolicy narrow = rules(R"({"action":"allow","cidr":"10.1.0.0/16","ports":[80]})");
  EXPECT_EQ(verdict({narrow, narrow, {}}, "10.1.0.1", kTcp, 80), "a policy:1");
  EXPECT_EQ(verdict({narrow, narrow, {}}, "10.1.0.1", kTcp, 81), "d maximum:unmatched");
  EXPECT_EQ(verdict({internet_egress(), narrow, {}}, "10.1.0.1", kTcp, 80), "d maximum:unmatched");
  const EgressPolicy all_fc = rules(R"({"action":"allow","cidr":"fc00::/7"})");
  EXPECT_EQ(verdict({all_fc, all_fc, {}}, "fd00::1", kTcp, 80), "a policy:1");
  EXPECT_EQ(verdict({all_fc, all_fc, {}}, "fd00:ec2::254", kTcp, 80), "d maximum:unmatched");
  const EgressPolicy named = rules(R"({"action":"allow","cidr":"fd00:ec2::254"})");
  EXPECT_EQ(verdict({named, named, {}}, "fd00:ec2::254", kTcp, 80), "a policy:1");
  const EgressStack blocked{narrow, narrow, {parse_cidr("10.1.0.0/24").value()}};
  EXPECT_EQ(verdict(blocked, "10.1.0.1", kTcp, 80), "d always:off-limits");
}

TEST(EgressPackets, DenyBeatsAllowInAnyOrder) {
  EgressPolicy mixed = rules(
      R"({"action":"allow","cidr":"203.0.113.0/24"},{"action":"deny","cidr":"203.0.0.0/16",
          "protocol":"tcp","ports":[22]},{"action":"allow","cidr":"203.0.113.7"},
         {"action":"deny","any":true,"protocol":"icmp"})");
  const EgressStack stack = under_internet(mixed);
  EXPECT_EQ(verdict(stack, "203.0.113.7", kTcp, 22), "d policy:2");
  EXPECT_EQ(verdict(stack, "203.0.113.7", kTcp, 23), "a policy:3");
  EXPECT_EQ(verdict(stack, "203.0.113.8", kTcp, 23), "a policy:1");
  EXPECT_EQ(verdict(stack, "203.0.113.8", kIcmp, 0), "d policy:4");
  EXPECT_EQ(verdict(stack, "203.0.112.8", kTcp, 23), "d policy:unmatched");
  std::ranges::reverse(mixed.rules);
  EXPECT_EQ(verdict(under_internet(mixed), "203.0.113.7", kTcp, 22), "d policy:3");
}

TEST(EgressPackets, NamesDecide) {
  const EgressPolicy run = rules(
      R"({"action":"allow","domain":"*.example.com"},
         {"action":"allow","cidr":"203.0.113.0/24"},
         {"action":"allow","cidr":"203.0.113.53","ports":[53,"440-450"]},
         {"action":"allow","domain":"ping.example.com","protocol":"icmp"})");
  const EgressStack stack = under_internet(run);
  const Time later = kNow + Seconds(60);
  EgressPins pins;
  for (const EgressPin& pin :
       pins_for(decide_name(stack, "a.example.com"), {ip("1.2.3.4"), ip("10.0.0.1")}, later)) {
    pins.add(pin);
  }
  EXPECT_EQ(pins.size(), 1U) << "a private address is never pinned";
  EXPECT_EQ(verdict(stack, "1.2.3.4", kTcp, 443, pins), "a policy:1");
  EXPECT_EQ(verdict(stack, "1.2.3.4", kTcp, 8080, pins), "d policy:unmatched");
  EXPECT_EQ(verdict(stack, "1.2.3.4", kUdp, 443, pins), "d policy:unmatched") << "QUIC";
  EXPECT_EQ(verdict(stack, "1.2.3.4", kIcmp, 0, pins), "d policy:unmatched");
  EXPECT_EQ(verdict(stack, "1.2.3.5", kTcp, 443, pins), "d policy:unmatched") << "not resolved";
  EXPECT_EQ(verdict(stack, "8.8.8.8", kUdp, 53, pins), "d policy:unmatched");
  // A rule without ports does not mean DNS and QUIC here; one that lists them does.
  EXPECT_EQ(verdict(stack, "203.0.113.1", kTcp, 22, pins), "a policy:2");
  EXPECT_EQ(verdict(stack, "203.0.113.1", kUdp, 53, pins), "d policy:unmatched");
  EXPECT_EQ(verdict(stack, "203.0.113.1", kTcp, 853, pins), "d policy:unmatched");
  EXPECT_EQ(verdict(stack, "203.0.113.1", kUdp, 443, pins), "d policy:unmatched");
  EXPECT_EQ(verdict(stack, "203.0.113.53", kUdp, 53, pins), "a policy:3");
  EXPECT_EQ(verdict(stack, "203.0.113.53", kUdp, 443, pins), "a policy:3");

  for (const EgressPin& pin :
       pins_for(decide_name(stack, "ping.example.com"), {ip("2001:db8::1")}, later)) {
    pins.add(pin);
  }
  EXPECT_EQ(verdict(stack, "2001:db8::1", kIcmp6, 0, pins), "a policy:4");
  EXPECT_EQ(verdict(stack, "2001:db8::1", kTcp, 80, pins), "a policy:1");
  pins.expire(later);
  EXPECT_EQ(verdict(stack, "2001:db8::1", kTcp, 80, pins), "d policy:unmatched");
}

// Both layers may go by names: an address must be pinned by a rule of each.
TEST(EgressPackets, PinsOfBothLayers) {
  const EgressStack stack{.maximum = rules(R"({"action":"allow","domain":"*.example.com"})"),
                          .policy = rules(R"({"action":"allow","domain":"a.example.com"})"),
                          .off_limits = {}};
  EgressPins pins;
  for (const EgressPin& pin :
       pins_for(decide_name(stack, "a.example.com"), {ip("1.2.3.4")}, kNow + Seconds(1))) {
    pins.add(pin);
  }
  EXPECT_EQ(verdict(stack, "1.2.3.4", kTcp, 443, pins), "a policy:1");
  EgressPins half;
  half.add({EgressLayer::policy, 1, ip("1.2.3.4"), kNow + Seconds(1)});
  EXPECT_EQ(verdict(stack, "1.2.3.4", kTcp, 443, half), "d maximum:unmatched");
  EXPECT_THAT(pins_for(decide_name(stack, "b.example.com"), {ip("1.2.3.4")}, kNow), IsEmpty());
}

// Only what a name alone opens is checked, on TLS's port; what an address rule opens is not.
TEST(EgressPackets, ServerNamesDecideWhereALayerChecksThem) {
  const EgressPolicy named = policy(
      R"("sniCheck":true,"rules":[{"action":"allow","domain":"a.test","ports":[443,8443]},
         {"action":"allow","cidr":"203.0.113.0/24"}])");
  EgressPolicy plain = named;
  plain.sni_check = false;
  EgressPins pins;
  for (const EgressLayer layer : {EgressLayer::maximum, EgressLayer::policy})
    for (const char* address : {"1.2.3.4", "203.0.113.7", "2001:db8::1"})
      pins.add({layer, 1, ip(address), kNow + Seconds(60)});
  auto decides = [&](const EgressStack& stack, std::string_view address, std::uint8_t protocol,
                     std::uint16_t port) {
    return server_name_decides(stack, pins, {ip(address), protocol, port}, kNow);
  };
  EXPECT_FALSE(checks_server_names(under_internet(plain)));
  EXPECT_FALSE(decides(under_internet(plain), "1.2.3.4", kTcp, 443));
  for (const EgressStack& stack : {under_internet(named), EgressStack{named, internet_egress(), {}},
                                   EgressStack{named, plain, {}}, EgressStack{plain, named, {}}}) {
    EXPECT_TRUE(checks_server_names(stack));
    EXPECT_TRUE(decides(stack, "1.2.3.4", kTcp, 443));
    EXPECT_TRUE(decides(stack, "2001:db8::1", kTcp, 443));
    EXPECT_FALSE(decides(stack, "1.2.3.4", kTcp, 8443));
    EXPECT_FALSE(decides(stack, "1.2.3.4", kUdp, 443));
    EXPECT_FALSE(decides(stack, "203.0.113.7", kTcp, 443)) << "opened by its address";
    EXPECT_FALSE(decides(stack, "1.2.3.5", kTcp, 443)) << "not opened at all";
  }
}

TEST(EgressPinsTest, AreExtendedAndBounded) {
  EgressPins pins;
  const EgressPin pin{EgressLayer::policy, 3, ip("1.2.3.4"), kNow + Seconds(10)};
  pins.add(pin);
  EgressPin shorter = pin;
  shorter.expires = kNow + Seconds(5);
  pins.add(shorter);
  EXPECT_THAT(pins.all(), ElementsAre(pin));
  pins.add({EgressLayer::policy, 9, ip("1.2.3.4"), kNow + Seconds(20)});
  EXPECT_EQ(pins.latest(EgressLayer::policy, {3, 9}, ip("1.2.3.4"))->rule, 9U);
  EXPECT_EQ(pins.latest(EgressLayer::policy, {3}, ip("1.2.3.4"))->rule, 3U);
  EXPECT_FALSE(pins.latest(EgressLayer::maximum, {3, 9}, ip("1.2.3.4")));
  for (std::uint32_t i = 0; i < EgressPins::kMost; i++) {
    pins.add({EgressLayer::policy, i + 10, ip("1.2.3.5"), kNow + Seconds(30)});
  }
  EXPECT_EQ(pins.size(), EgressPins::kMost);
  EXPECT_FALSE(pins.pinned(EgressLayer::policy, 3, ip("1.2.3.4"), kNow));
}

TEST(EgressCapsTest, TheTighterLayerCounts) {
  EgressStack stack = under_internet(internet_egress());
  EXPECT_EQ(caps_of(stack).bytes, 0U);
  EXPECT_EQ(caps_of(stack).connections, kMaxConnections);
  stack.maximum.max_bytes = 100;
  stack.policy.max_bytes = 200;
  stack.policy.max_connections = 3;
  EXPECT_EQ(caps_of(stack).bytes, 100U);
  EXPECT_EQ(caps_of(stack).connections, 3U);
}

}  // namespace
}  // namespace firebreak::core
