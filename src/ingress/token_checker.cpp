#include "ingress/token_checker.h"

namespace firebreak::ingress {
namespace {

constexpr std::size_t kMaxOpened = 4096;

}  // namespace

void TokenChecker::revoke(const core::TokenId& id, core::Time until) {
  const core::Time now = clock_.now();
  std::erase_if(revoked_, [now](const auto& entry) { return entry.second <= now; });
  std::erase_if(opened_, [&id](const auto& entry) { return entry.second.id == id; });
  revoked_[id] = until;
}

const TokenClaims* TokenChecker::check(std::string_view token) {
  auto at = opened_.find(token);
  if (at == opened_.end()) {
    auto claims = open_claims(keys_, token);
    if (!claims || revoked_.contains(claims->id)) return nullptr;
    if (opened_.size() >= kMaxOpened) opened_.clear();
    at = opened_.emplace(std::string(token), *std::move(claims)).first;
  }
  if (at->second.expires > clock_.now()) return &at->second;
  opened_.erase(at);
  return nullptr;
}

}  // namespace firebreak::ingress
