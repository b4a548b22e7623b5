#include "ingress/token_claims.h"

#include "base/json.h"
#include "wire/jwe.h"

namespace firebreak::ingress {

std::uint16_t port_of_token(const core::PortSet& ports, std::uint16_t image_port) {
  const bool one =
      !ports.all && ports.ranges.size() == 1 && ports.ranges[0].first == ports.ranges[0].last;
  if (one) return ports.ranges[0].first;
  return image_port != 0 && ports.contains(image_port) ? image_port : kDefaultPort;
}

Result<std::string> seal_claims(const TokenKeys& keys, const TokenClaims& claims) {
  const json::object object{{"jti", claims.id.str()},
                            {"sub", claims.microvm.str()},
                            {"kind", core::to_string(claims.kind)},
                            {"ports", core::to_text(claims.ports)},
                            {"exp", core::to_unix_ms(claims.expires)},
                            {"port", claims.port}};
  return wire::jwe_encrypt(keys.newest().id, keys.newest().key, json::serialize(object));
}

Result<TokenClaims> open_claims(const TokenKeys& keys, std::string_view token) {
  const auto denied = [] { return fail(Code::denied, "not a valid token"); };
  const auto text =
      wire::jwe_decrypt(token, [&keys](std::string_view id) { return keys.find(id); });
  if (!text) return denied();
  const auto object = parse_json_object(*text);
  if (!object) return denied();
  JsonReader reader(*object);
  TokenClaims claims;
  claims.id = core::TokenId(reader.string("jti"));
  claims.microvm = core::MicrovmId(reader.string("sub"));
  const auto kind = core::parse_token_kind(reader.string("kind"));
  auto ports = core::parse_ports(reader.string("ports"));
  claims.expires = core::from_unix_ms(reader.i64("exp"));
  // Tokens of an earlier server name none.
  const std::uint64_t port = reader.u64_or("port", kDefaultPort);
  if (!reader.result() || !kind || !ports || port == 0 || port > 65535) return denied();
  claims.port = static_cast<std::uint16_t>(port);
  claims.kind = *kind;
  claims.ports = *std::move(ports);
  return claims;
}

}  // namespace firebreak::ingress
