#include "ingress/token_ring.h"

namespace firebreak::ingress {

net::Task<Result<>> TokenRing::load() {
  control::Services& services = supervisor_.services();
  const core::Time now = services.clock.now();
  FB_CO_TRY_ASSIGN(const auto revoked, co_await services.db.run([now](const store::Store& store) {
    return store.revoked_tokens(now);
  }));
  for (const core::AccessToken& token : revoked) checker_.revoke(token.id, token.expires);
  co_return Result<>();
}

net::Task<Result<IssuedToken>> TokenRing::issue(core::TenantId tenant, core::MicrovmId microvm,
                                                TokenRequest request) {
  if (request.life < core::Seconds(1) || request.life > kMaxTokenLife)
    co_return fail(Code::invalid,
                   "a token lives for 1 to " + std::to_string(kMaxTokenLife.count()) + " seconds");
  if (request.kind == core::TokenKind::shell)
    request.ports = {.all = false, .ranges = {{kShellPort, kShellPort}}};
  FB_CO_TRY(core::check(request.ports));
  FB_CO_TRY_ASSIGN(const core::Microvm found, co_await supervisor_.get(tenant, microvm));
  if (found.state == core::MicrovmState::terminated ||
      found.state == core::MicrovmState::terminating)
    co_return fail(Code::conflict, Reason{"ended"},
                   "the microVM is " + std::string(to_string(found.state)));
  control::Services& services = supervisor_.services();
  const core::Time now = services.clock.now();
  if (checker_.keys().due(now)) {
    FB_CO_TRY_ASSIGN(TokenKeys renewed,
                     co_await net::run_blocking(
                         pool_, [keys = checker_.keys(), now] { return keys.renew(now); }));
    checker_.set_keys(std::move(renewed));
  }
  IssuedToken issued;
  issued.record = {.id = core::TokenId(core::new_uuid()),
                   .tenant = tenant,
                   .microvm = microvm,
                   .kind = request.kind,
                   .ports = std::move(request.ports),
                   .created = now,
                   .expires = now + request.life,
                   .revoked = std::nullopt};
  const TokenClaims claims{.id = issued.record.id,
                           .microvm = microvm,
                           .kind = issued.record.kind,
                           .ports = issued.record.ports,
                           .expires = issued.record.expires,
                           .port = request.port};
  FB_CO_TRY_ASSIGN(issued.token, seal_claims(checker_.keys(), claims));
  FB_CO_TRY(co_await services.db.run(
      [&issued](store::Store& store) { return store.create_token(issued.record); }));
  co_return issued;
}

net::Task<Result<std::vector<core::AccessToken>>> TokenRing::list(core::TenantId tenant,
                                                                  core::MicrovmId microvm) {
  FB_CO_TRY(co_await supervisor_.get(tenant, microvm));
  co_return co_await supervisor_.services().db.run(
      [&](const store::Store& store) { return store.list_tokens(tenant, microvm); });
}

net::Task<Result<>> TokenRing::revoke(core::TenantId tenant, core::MicrovmId microvm,
                                      core::TokenId id) {
  control::Services& services = supervisor_.services();
  const core::Time now = services.clock.now();
  FB_CO_TRY(co_await services.db.run(
      [&](store::Store& store) { return store.revoke_token(tenant, microvm, id, now); }));
  // Its real expiry is in the token; none lives longer than this.
  checker_.revoke(id, now + kMaxTokenLife);
  co_return Result<>();
}

}  // namespace firebreak::ingress
