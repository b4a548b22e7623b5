// Ed25519 by OpenSSL: the server's key that signs checkpoints and manifests. Keys and signatures
// are bytes. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::audit {

inline constexpr std::size_t kKeyBytes = 32;

// Of 32 random bytes, which are the private key.
Result<std::string> public_key(std::string_view private_key);
Result<std::string> sign(std::string_view private_key, std::string_view text);
bool signed_by(std::string_view public_key, std::string_view text, std::string_view signature);

// As people and files carry it: "ed25519:" and base64. Code::invalid for anything else.
std::string key_text(std::string_view public_key);
Result<std::string> parse_key_text(std::string_view text);

}  // namespace firebreak::audit
