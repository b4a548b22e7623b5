// The keys that tokens are sealed with: a file in the data directory. The newest seals; older ones
// open until no token of theirs can be alive. Owned by the token ring; one executor, but load() and
// renew() block: any one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "wire/crypto.h"

namespace firebreak::ingress {

struct TokenKey {
  std::string id;
  wire::SealingKey key{};
  core::Time created{};
};

class TokenKeys {
 public:
  static constexpr core::Seconds kRenewAfter{30 * 24 * 3600};

  // Makes the file (0600) when it is missing, and a new key when the newest is old. Without the
  // file every token is dead.
  static Result<TokenKeys> load(const std::string& path, core::Time now);
  // True: the newest is due to be replaced.
  bool due(core::Time now) const { return now - newest().created >= kRenewAfter; }
  // The same keys with a new one, without those that are of no use any more; written to the file.
  Result<TokenKeys> renew(core::Time now) const;

  const TokenKey& newest() const { return keys_.back(); }
  const wire::SealingKey* find(std::string_view id) const;

 private:
  explicit TokenKeys(std::string path) : path_(std::move(path)) {}
  Result<> save() const;

  std::string path_;
  std::vector<TokenKey> keys_;  // oldest first
};

}  // namespace firebreak::ingress
