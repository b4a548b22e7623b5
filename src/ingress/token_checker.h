// Checks tokens without asking anybody: keys, clock and what is revoked are in memory. Owned by the
// token ring; one executor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ingress/token_claims.h"

namespace firebreak::ingress {

class TokenChecker {
 public:
  TokenChecker(TokenKeys keys, const core::Clock& clock) : keys_(std::move(keys)), clock_(clock) {}

  // What the token allows, if it is ours, not expired and not revoked. The pointer is good until
  // the next call.
  const TokenClaims* check(std::string_view token);
  // `until`: when it would have expired, or later.
  void revoke(const core::TokenId& id, core::Time until);

  const TokenKeys& keys() const { return keys_; }
  void set_keys(TokenKeys keys) { keys_ = std::move(keys); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  TokenKeys keys_;
  const core::Clock& clock_;
  std::map<core::TokenId, core::Time> revoked_;  // until when they would have been good
  // Opened before: a token comes with every request.
  std::unordered_map<std::string, TokenClaims, Hash, std::equal_to<>> opened_;
};

}  // namespace firebreak::ingress
