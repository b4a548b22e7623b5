#include "core/key_kind.h"

#include <algorithm>
#include <array>

namespace firebreak::core {
namespace {
constexpr std::array<std::string_view, 5> kNames{"owner", "agent", "approver", "auditor",
                                                 "administrator"};
}

std::string_view to_string(KeyKind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

std::optional<KeyKind> parse_key_kind(std::string_view text) {
  const auto* const at = std::ranges::find(kNames, text);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<KeyKind>(at - kNames.begin());
}

}  // namespace firebreak::core
