// Random policies and packets for tests, drawn so that they meet: few addresses, nested blocks,
// ports at the edges of ranges.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/egress_decision.h"
#include "egress/namespace_test_support.h"

namespace firebreak::egress {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  template <class T>
  const T& one(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  core::EgressStack stack() {
    core::EgressStack out;
    out.maximum = chance(60) ? core::internet_egress() : policy("maximum");
    out.policy = chance(15) ? core::internet_egress() : policy("run");
    for (const char* block : {"100.64.0.0/16", "fd64::/16"}) {
      out.off_limits.push_back(core::parse_cidr(block).value());
    }
    if (chance(30)) out.off_limits.push_back(core::parse_cidr("203.0.113.64/26").value());
    return out;
  }

  // Pins of allowed names as the resolver would make them, and some whose time is over.
  core::EgressPins pins(const core::EgressStack& stack, core::Time now) {
    core::EgressPins out;
    for (const char* name : {"a.example.com", "b.example.com", "x.test", "y.x.test", "z.z.test"}) {
      const core::NameDecision decision = core::decide_name(stack, name);
      std::vector<core::IpAddress> addresses{address(), address(), address()};
      const core::Time expires = now + (chance(80) ? core::Seconds(600) : core::Seconds(-1));
      for (const core::EgressPin& pin : core::pins_for(decision, addresses, expires)) out.add(pin);
    }
    return out;
  }

  core::IpAddress address() { return core::parse_address(one(addresses())).value(); }

  Packet packet(const core::EgressPins& pins) {
    Packet out;
    const Wiring wiring = TestNamespace::wiring();
    out.destination = address();
    if (chance(50)) out.destination = core::parse_address(one(global_addresses())).value();
    bool tls = false;
    if (const auto all = pins.all(); !all.empty() && chance(30)) {
      out.destination = one(all).address;
      tls = chance(40);
    }
    const bool v6 = out.destination.v6;
    out.source = v6 ? *wiring.guest6 : wiring.guest4;
    out.source_mac = wiring.guest_mac;
    out.destination_mac = TestNamespace::kTapMac;
    out.protocol = one(std::vector<std::uint8_t>{core::kTcp, core::kTcp, core::kTcp, core::kUdp,
                                                 core::kUdp, v6 ? core::kIcmp6 : core::kIcmp, 253});
    out.port = one(ports());
    if (tls) {
      out.protocol = core::kTcp;
      out.port = core::kCheckedPort;
    }
    out.source_port = next_source_port_++;
    if (next_source_port_ == 0) next_source_port_ = 1024;
    out.payload = out.protocol == 253 ? below(2) * 3 : 24;
    out.fragmented = out.protocol != 253 && chance(10);
    if (v6)
      out.fragment_size = 24;  // the kernel drops a smaller first piece of TCP, unseen by rules
    if (chance(4)) out.source_mac[5] = 9;
    if (chance(4)) out.source = core::parse_address(v6 ? "fd00::3" : "10.0.0.3").value();
    if (!out.fragmented && out.protocol != 253 && chance(2)) out.source_routed = true;
    return out;
  }

 private:
  static const std::vector<std::string>& addresses() {
    static const std::vector<std::string> all{
        "203.0.113.1",     "203.0.113.63",    "203.0.113.64",
        "203.0.113.127",   "203.0.113.128",   "203.0.113.255",
        "203.0.112.1",     "8.8.8.8",         "1.0.0.1",
        "10.1.2.3",        "10.1.3.4",        "10.2.0.1",
        "192.168.1.1",     "172.16.0.1",      "172.32.0.1",
        "100.64.7.1",      "100.65.0.1",      "100.100.100.200",
        "198.18.0.1",      "168.63.129.16",   "169.254.169.254",
        "127.0.0.1",       "0.0.0.1",         "224.0.0.1",
        "240.0.0.1",       "255.255.255.255", "192.88.99.1",
        "2001:db8::1",     "2001:db8::ffff",  "2001:db8:0:1::1",
        "2001:db8:1::1",   "2606:4700::1111", "fd01::1",
        "fd00:ec2::254",   "fc00::1",         "fd64::9",
        "fe80::5",         "ff02::1",         "::1",
        "::ffff:8.8.8.8",  "::8.8.8.8",       "64:ff9b::808:808",
        "2002:808:808::1", "2001::808",       "100::1",
        "fec0::1"};
    return all;
  }
  static const std::vector<std::string>& global_addresses() {
    static const std::vector<std::string> all{"203.0.113.1",   "203.0.113.64",   "203.0.113.128",
                                              "203.0.112.1",   "8.8.8.8",        "1.0.0.1",
                                              "172.32.0.1",    "2001:db8::1",    "2001:db8:0:1::1",
                                              "2001:db8:1::1", "2606:4700::1111"};
    return all;
  }
  static const std::vector<std::string>& blocks() {
    static const std::vector<std::string> all{
        "0.0.0.0/0",          "203.0.112.0/22",   "203.0.113.0/24",  "203.0.113.64/26",
        "203.0.113.64/32",    "203.0.113.128/25", "8.0.0.0/5",       "8.8.8.8/32",
        "1.0.0.0/8",          "10.0.0.0/8",       "10.1.0.0/16",     "10.1.2.0/24",
        "10.1.2.3/32",        "192.168.0.0/16",   "172.16.0.0/12",   "100.64.0.0/10",
        "100.100.100.200/32", "168.63.129.16/32", "198.18.0.0/15",   "::/0",
        "2001:db8::/32",      "2001:db8::/64",    "2001:db8::1/128", "2001:db8:1::/48",
        "2606:4700::/32",     "fc00::/7",         "fd01::/16",       "fd00:ec2::254/128",
        "fd00:ec2::/32"};
    return all;
  }
  static const std::vector<std::uint16_t>& ports() {
    static const std::vector<std::uint16_t> all{1,   22,  53,   79,   80,   81,   443,  444,
                                                442, 853, 1023, 1024, 7999, 8000, 8100, 65535};
    return all;
  }

  std::vector<core::PortRange> ranges() {
    std::vector<core::PortRange> out;
    for (std::size_t i = 1 + below(3); i > 0; i--) {
      const std::uint16_t a = one(ports());
      const std::uint16_t b = chance(50) ? a : one(ports());
      out.push_back({std::min(a, b), std::max(a, b)});
    }
    return out;
  }

  core::EgressRule rule(bool domains, bool any) {
    using Protocol = core::EgressProtocol;
    core::EgressRule out;
    out.action = chance(80) ? core::EgressAction::allow : core::EgressAction::deny;
    const bool allow = out.action == core::EgressAction::allow;
    out.protocol = one(std::vector<Protocol>{Protocol::any, Protocol::any, Protocol::tcp,
                                             Protocol::udp, Protocol::icmp});
    if (out.protocol != Protocol::icmp && chance(60)) out.ports = ranges();
    if (domains && chance(40)) {
      out.target =
          core::parse_domain_pattern(one(std::vector<std::string>{"*.example.com", "a.example.com",
                                                                  "x.test", "*.x.test", "*.test"}))
              .value();
      if (!allow) {
        out.protocol = Protocol::any;
        out.ports.clear();
      } else if (chance(20)) {
        out.protocol = Protocol::icmp;
        out.ports.clear();
      } else {
        out.protocol = chance(80) ? Protocol::tcp : Protocol::udp;
        out.ports = chance(60) ? std::vector<core::PortRange>{{80, 80}, {443, 443}}
                               : std::vector<core::PortRange>{{1024, 8100}, {8000, 8000}};
      }
    } else if (chance(15) && (any || !allow)) {
      out.target = core::AnyTarget{};
    } else {
      out.target = core::parse_cidr(one(blocks())).value();
    }
    return out;
  }

  core::EgressPolicy policy(const std::string& name) {
    core::EgressPolicy out;
    out.name = name;
    const bool domains = chance(50);
    out.internet = !domains && chance(60);
    for (std::size_t i = below(12); i > 0; i--) out.rules.push_back(rule(domains, !domains));
    out.sni_check = domains && chance(50);
    if (!core::check(out)) out.sni_check = false;  // nothing to check
    return out;
  }

  std::mt19937_64 random_;
  std::uint16_t next_source_port_ = 1024;
};

}  // namespace firebreak::egress
