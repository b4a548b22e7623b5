// A right to call a microVM's endpoint: which microVM, which ports, until when. Values; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/clock.h"
#include "core/ids.h"
#include "core/port_range.h"

namespace firebreak::core {

using TokenId = Id<struct TokenTag>;  // a UUID

struct PortSet {
  bool all = false;
  std::vector<PortRange> ranges;  // at most kMaxTokenRanges

  bool contains(std::uint16_t port) const;
  friend bool operator==(const PortSet&, const PortSet&) = default;
};
inline constexpr std::size_t kMaxTokenRanges = 100;

// "*", or "8080,9000-9010": how a set is kept, shown and asked for.
std::string to_text(const PortSet& ports);
Result<PortSet> parse_ports(std::string_view text);
// At least one port, each range in order, not too many of them.
Result<> check(const PortSet& ports);

enum class TokenKind {
  endpoint,  // any protocol to the ports
  shell,     // a terminal
};
std::string_view to_string(TokenKind kind);
std::optional<TokenKind> parse_token_kind(std::string_view text);

// What is kept of a token that was issued; the token itself is not.
struct AccessToken {
  TokenId id;
  TenantId tenant;
  MicrovmId microvm;
  TokenKind kind = TokenKind::endpoint;
  PortSet ports;
  Time created{};
  Time expires{};
  std::optional<Time> revoked;
  friend bool operator==(const AccessToken&, const AccessToken&) = default;
};

}  // namespace firebreak::core
