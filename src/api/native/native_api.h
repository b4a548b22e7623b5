// The native REST API under /v1: authentication, routing, errors. The routes themselves are in the
// files beside this one. Owned by the program; one executor.
#pragma once

#include <functional>
#include <string>

#include "api/router.h"
#include "control/builds.h"
#include "control/check.h"
#include "control/images.h"
#include "control/secret_book.h"
#include "ingress/endpoint_address.h"
#include "ingress/endpoint_tokens.h"
#include "session/guest.h"
#include "session/sandboxes.h"

namespace firebreak::api {

// What the paths of one microVM begin with.
inline constexpr std::string_view kMicrovmPath = "/v1/microvms/{id}";

class NativeApi final : public Facade {
 public:
  NativeApi(control::Supervisor& supervisor, session::Guests& guests, session::Sandboxes& sandboxes,
            control::KeyRing& keys, control::SecretBook& secrets, control::Images& images,
            control::Builds& builds, net::asio::thread_pool& pool, ingress::EndpointTokens& tokens,
            const ingress::EndpointAddress& endpoints,
            std::function<net::Task<Result<control::CheckReport>>(bool repair)> check);

  std::string_view name() const override { return "native"; }
  bool claims(const net::HttpRequest& request, const net::Target& target) const override;
  net::Task<void> handle(net::HttpExchange& exchange, net::Target target) override;
  std::vector<Surface> surface() const override;

  const Router& router() const { return router_; }
  json::object openapi() const;

 private:
  net::Task<Result<>> dispatch(net::HttpExchange& exchange, net::Target target);
  Result<control::Caller> authenticate(const net::HttpRequest& request) const;

  void add_microvm_routes();
  void add_exec_routes();
  void add_log_routes();
  void add_file_routes();
  void add_context_routes();
  void add_terminal_routes();
  void add_token_routes();
  void add_image_routes();
  void add_build_routes();
  void add_tenant_routes();
  void add_history_routes();
  void add_egress_routes();
  void add_role_routes();
  void add_secret_routes();
  void add_template_routes();
  void add_session_routes();

  control::Supervisor& supervisor_;
  session::Guests& guests_;
  session::Sandboxes& sandboxes_;
  control::KeyRing& keys_;
  control::SecretBook& secrets_;
  control::Images& images_;
  control::Builds& builds_;
  net::asio::thread_pool& pool_;
  ingress::EndpointTokens& tokens_;
  const ingress::EndpointAddress& endpoints_;
  std::function<net::Task<Result<control::CheckReport>>(bool repair)> check_;
  Router router_;
};

}  // namespace firebreak::api
