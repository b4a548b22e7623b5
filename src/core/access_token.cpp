#include "core/access_token.h"

#include <algorithm>

#include "base/text.h"

namespace firebreak::core {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number == 0 || *number > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

}  // namespace

bool PortSet::contains(std::uint16_t port) const {
  return all || std::ranges::any_of(ranges, [port](const PortRange& range) {
           return port >= range.first && port <= range.last;
         });
}

std::string to_text(const PortSet& ports) {
  if (ports.all) return "*";
  std::string text;
  for (const PortRange& range : ports.ranges) {
    if (!text.empty()) text += ",";
    text += std::to_string(range.first);
    if (range.last != range.first) text += "-" + std::to_string(range.last);
  }
  return text;
}

Result<PortSet> parse_ports(std::string_view text) {
  if (text == "*") return PortSet{.all = true, .ranges = {}};
  PortSet ports;
  for (const std::string_view part : split(text, ',')) {
    const auto dash = std::min(part.find('-'), part.size());
    const auto first = parse_port(part.substr(0, dash));
    const auto last = dash == part.size() ? first : parse_port(part.substr(dash + 1));
    if (!first || !last)
      return fail(Code::invalid, "not a list of ports: use \"8080,9000-9010\" or \"*\"");
    ports.ranges.push_back({*first, *last});
  }
  FB_TRY(check(ports));
  return ports;
}

Result<> check(const PortSet& ports) {
  if (ports.all) return {};
  if (ports.ranges.empty()) return fail(Code::invalid, "a token needs at least one port");
  if (ports.ranges.size() > kMaxTokenRanges)
    return fail(Code::invalid, "a token has at most 100 ports or ranges", Repair{"use a range"});
  for (const PortRange& range : ports.ranges) {
    if (range.first == 0 || range.last < range.first)
      return fail(Code::invalid, "a range of ports goes from 1..65535 upwards");
  }
  return {};
}

std::string_view to_string(TokenKind kind) {
  return kind == TokenKind::shell ? "shell" : "endpoint";
}

std::optional<TokenKind> parse_token_kind(std::string_view text) {
  if (text == "endpoint") return TokenKind::endpoint;
  if (text == "shell") return TokenKind::shell;
  return std::nullopt;
}

}  // namespace firebreak::core
