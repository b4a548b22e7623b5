// Issues tokens, lists and revokes them: what was issued is in the store. Owned by the program; one
// executor.
#pragma once

#include "control/supervisor.h"
#include "ingress/endpoint_tokens.h"
#include "ingress/token_checker.h"

namespace firebreak::ingress {

class TokenRing final : public EndpointTokens {
 public:
  // `pool`: for writing the key file.
  TokenRing(control::Supervisor& supervisor, TokenKeys keys, net::asio::thread_pool& pool)
      : supervisor_(supervisor),
        checker_(std::move(keys), supervisor.services().clock),
        pool_(pool) {}

  // Revocations of an earlier server.
  net::Task<Result<>> load();

  net::Task<Result<IssuedToken>> issue(core::TenantId tenant, core::MicrovmId microvm,
                                       TokenRequest request) override;
  net::Task<Result<std::vector<core::AccessToken>>> list(core::TenantId tenant,
                                                         core::MicrovmId microvm) override;
  net::Task<Result<>> revoke(core::TenantId tenant, core::MicrovmId microvm,
                             core::TokenId id) override;

  TokenChecker& checker() { return checker_; }

 private:
  control::Supervisor& supervisor_;
  TokenChecker checker_;
  net::asio::thread_pool& pool_;
};

}  // namespace firebreak::ingress
