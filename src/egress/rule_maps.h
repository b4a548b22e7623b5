// The rules of a policy as lists of map elements that do not overlap, because a map of the kernel
// may not hold two elements for one key. Address blocks either nest or are apart, so blocks of one
// depth of nesting are apart: each depth becomes maps of its own, and a packet costs one lookup per
// depth, however many rules there are. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/egress_decision.h"

namespace firebreak::egress {

// Of rules that list ports.
struct PortElement {
  core::Cidr block;
  std::uint8_t protocol = 0;
  core::PortRange ports;
  std::uint32_t number = 0;  // of the rule
  friend bool operator==(const PortElement&, const PortElement&) = default;
};
// Of rules that do not.
struct ProtocolElement {
  core::Cidr block;
  std::uint8_t first = 0;
  std::uint8_t last = 0;
  std::uint32_t number = 0;
  friend bool operator==(const ProtocolElement&, const ProtocolElement&) = default;
};
struct MapLevel {
  std::vector<PortElement> ports;
  std::vector<ProtocolElement> protocols;
};

// Widest blocks first: what a later level says is more specific, and so is what `ports` says
// compared with `protocols` of the same level. Where rules are alike, the lowest number has it.
// Rules for domains are left out.
std::vector<MapLevel> deny_levels(const core::EgressPolicy& policy, bool v6);
// Those that open addresses of this kind.
std::vector<MapLevel> allow_levels(const core::EgressPolicy& policy, core::AddressKind kind,
                                   bool v6);

std::string to_nft(const PortElement& element);      // "203.0.113.0/24 . 6 . 80-90 : 3"
std::string to_nft(const ProtocolElement& element);  // "203.0.113.0/24 . 18-255 : 3"

// Sorted, without overlap.
std::vector<core::PortRange> merged(const std::vector<core::PortRange>& ports);
std::string to_nft(const core::PortRange& ports);  // "80" or "80-90"

}  // namespace firebreak::egress
