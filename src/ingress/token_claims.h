// What a token says, sealed and opened. Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/access_token.h"
#include "ingress/endpoint_tokens.h"
#include "ingress/token_keys.h"

namespace firebreak::ingress {

struct TokenClaims {
  core::TokenId id;
  core::MicrovmId microvm;
  core::TokenKind kind = core::TokenKind::endpoint;
  core::PortSet ports;
  core::Time expires{};
  std::uint16_t port = kDefaultPort;  // of requests that name none
  friend bool operator==(const TokenClaims&, const TokenClaims&) = default;
};

Result<std::string> seal_claims(const TokenKeys& keys, const TokenClaims& claims);
// Code::denied for whatever is not a token of ours, unchanged; without saying why. Expiry is the
// caller's to check.
Result<TokenClaims> open_claims(const TokenKeys& keys, std::string_view token);

}  // namespace firebreak::ingress
