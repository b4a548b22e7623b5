// The doors of a server: façades behind one front, and the endpoints of microVMs. Owned by the
// Server; one executor.
#pragma once

#include <memory>

#include "api/front.h"
#include "api/lambda/artifacts.h"
#include "api/mcp/mcp_api.h"
#include "ingress/guest_entrance.h"
#include "ingress/proxy.h"
#include "ingress/token_ring.h"
#include "server/control_room.h"
#include "session/guest.h"
#include "session/sandbox_machines.h"
#include "session/sandboxes.h"

namespace firebreak::server {

class Doors {
 public:
  static Result<std::unique_ptr<Doors>> open(const ServerConfig& config,
                                             const Surroundings& surroundings, Storage& storage,
                                             ControlRoom& control);

  net::Task<Result<>> load() { return tokens_->load(); }
  // Before the first request, and after the last.
  net::Task<Result<>> start();
  net::Task<void> close(Deadline deadline);
  net::Task<void> handle_api(net::HttpExchange& exchange) { return front_.handle(exchange); }
  net::Task<void> handle_endpoint(net::HttpExchange& exchange) { return proxy_->handle(exchange); }
  // Where the endpoints are, for answers that name them: known once somebody listens.
  void set_endpoints(ingress::EndpointAddress address) { endpoints_ = std::move(address); }

 private:
  Doors() = default;
  std::unique_ptr<api::mcp::McpApi> make_mcp_api(const Surroundings& surroundings, Storage& storage,
                                                 control::Supervisor& supervisor);
  Result<> add_facades(const ServerConfig& config, const Surroundings& surroundings,
                       Storage& storage, ControlRoom& control);

  std::unique_ptr<ingress::TokenRing> tokens_;
  std::unique_ptr<session::Guests> guests_;
  std::unique_ptr<session::SandboxMachines> machines_;
  std::unique_ptr<session::Sandboxes> sessions_;
  std::unique_ptr<session::DefaultSandboxes> sandboxes_;
  std::unique_ptr<session::CodeTurns> turns_;
  std::unique_ptr<ingress::GuestEntrance> entrance_;
  std::unique_ptr<ingress::Proxy> proxy_;
  std::unique_ptr<api::Artifacts> artifacts_;
  ingress::EndpointAddress endpoints_;
  api::Front front_;
};

}  // namespace firebreak::server
