// Tokens of endpoints as the APIs see them: issue, list, revoke. One executor.
#pragma once

#include <string>
#include <vector>

#include "core/access_token.h"
#include "core/model.h"
#include "net/task.h"

namespace firebreak::ingress {

// Of tokens that are not asked for by a façade with a shorter limit.
inline constexpr core::Seconds kMaxTokenLife{7 * 24 * 3600};
// Where a shell token leads; the endpoint answers there itself.
inline constexpr std::uint16_t kShellPort = 8022;
// When neither header nor subprotocol nor token names one.
inline constexpr std::uint16_t kDefaultPort = 8080;

struct TokenRequest {
  core::TokenKind kind = core::TokenKind::endpoint;
  core::PortSet ports;  // of a shell token: ignored, it has its own port
  core::Seconds life{3600};
  std::uint16_t port = kDefaultPort;  // where requests go that name none
};

// Where requests go that name none, with a token of the native API: to the only port it has, else
// to the image's (0: it names none) if it has that.
std::uint16_t port_of_token(const core::PortSet& ports, std::uint16_t image_port);

struct IssuedToken {
  core::AccessToken record;
  std::string token;  // shown once; compact JWE
};

class EndpointTokens {
 public:
  virtual ~EndpointTokens() = default;
  // For a microVM that starts, runs or sleeps. Code::not_found for a microVM of another tenant,
  // Code::conflict for one that has ended, Code::invalid for a bad life or ports.
  virtual net::Task<Result<IssuedToken>> issue(core::TenantId tenant, core::MicrovmId microvm,
                                               TokenRequest request) = 0;
  virtual net::Task<Result<std::vector<core::AccessToken>>> list(core::TenantId tenant,
                                                                 core::MicrovmId microvm) = 0;
  // From the next request on; what is open goes on.
  virtual net::Task<Result<>> revoke(core::TenantId tenant, core::MicrovmId microvm,
                                     core::TokenId id) = 0;
};

}  // namespace firebreak::ingress
