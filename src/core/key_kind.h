// What a key is for. Values; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace firebreak::core {

enum class KeyKind : std::uint8_t {
  owner,          // everything of its tenant but caps, budget and tier
  agent,          // runs code in sessions of its own agent, nothing else
  approver,       // answers pending approvals
  auditor,        // reads records, nothing else
  administrator,  // everything, also tenants, limits and policies
};
std::string_view to_string(KeyKind kind);
std::optional<KeyKind> parse_key_kind(std::string_view text);

}  // namespace firebreak::core
