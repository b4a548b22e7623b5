// Compact JWE (RFC 7516) of one kind: "alg":"dir", "enc":"A256GCM", a "kid". Everything else is
// refused before a key is touched, so there is no algorithm to confuse. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/crypto.h"

namespace firebreak::wire {

inline constexpr std::size_t kMaxJwe = 8000;  // characters
inline constexpr std::size_t kMaxKeyId = 64;  // letters, digits, '-', '_'

// Code::exhausted when the token would be longer than kMaxJwe.
Result<std::string> jwe_encrypt(std::string_view key_id, const SealingKey& key,
                                std::string_view plain);

// The key with that id, or nullptr.
using JweKeyFinder = std::function<const SealingKey*(std::string_view key_id)>;
// Code::invalid for whatever is not a token of this kind, made with a key that is known, unchanged;
// without saying which.
Result<std::string> jwe_decrypt(std::string_view token, const JweKeyFinder& find_key);

// Without padding; the unused bits of the last character must be zero, so that each value has one
// spelling.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace firebreak::wire
