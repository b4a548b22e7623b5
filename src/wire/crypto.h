// The little cryptography the project needs, on OpenSSL's EVP: digests, sealed values, random
// secrets, comparing without a clock giving the answer away. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

std::string sha256(std::string_view data);  // 32 bytes
std::string sha256_hex(std::string_view data);
std::string hmac_sha256(std::string_view key, std::string_view data);  // 32 bytes

bool equal_secrets(std::string_view a, std::string_view b);

std::string base64(std::string_view data);
// Standard alphabet with padding; anything else is nullopt.
std::optional<std::string> from_base64(std::string_view text);
std::string base64url(std::string_view data);  // without padding

std::string random_base64url(std::size_t bytes);
std::string random_base32(std::size_t characters);  // A-Z2-7

// AES-256-GCM with a random nonce: nonce, ciphertext, tag. `context` is bound to it, not kept.
using SealingKey = std::array<std::byte, 32>;
Result<std::string> seal(const SealingKey& key, std::string_view plain, std::string_view context);
// Code::corrupt when it was made with another key or context, or was changed.
Result<std::string> unseal(const SealingKey& key, std::string_view sealed,
                           std::string_view context);

}  // namespace firebreak::wire
