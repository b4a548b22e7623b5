// The operations of the `ctl` port: health, making, waking, freezing, thawing the tenant, power.
// Owned by the agent; ctl thread.
#pragma once

#include <memory>
#include <optional>

#include "guest/data_side.h"
#include "guest/exchange.h"
#include "guest/identity.h"
#include "guest/metadata_server.h"
#include "guest/tenant.h"
#include "guest/tenant_state.h"
#include "guest/thrash_guard.h"

namespace firebreak::guest {

class ControlService final : public Service {
 public:
  // `identity` is nullptr outside of a guest.
  ControlService(Reactor& reactor, DataSide& data, TenantState& state, Metadata& metadata,
                 MetadataServer& metadata_server, std::unique_ptr<Identity> identity);
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;

 private:
  json::object health() const;
  void create_tenant(const json::object& body, const std::shared_ptr<Exchange>& exchange);
  Result<> set_birth(const json::object& body);
  void tenant_made(Result<TenantHandles> made, Exchange& exchange);
  Result<json::object> wake(const json::object& body);
  // A wake, or a rehearsal of one, which thaws the shadow and leaves the tenant as it is.
  enum class Thawed { tenant, shadow };
  Result<> become(const json::object& body, Thawed thawed);
  Result<json::object> network(const json::object& body);
  Result<json::object> egress(const json::object& body);
  Result<json::object> set_metadata(const json::object& body);
  Result<> set_network(bool network);
  Result<json::object> freeze(const json::object& body);
  Result<json::object> thaw(const json::object& body);
  Result<json::object> rehearse(const json::object& body);
  Result<json::object> fs_freeze(bool freeze);
  Result<json::object> resources() const;
  void power_off(Exchange& exchange);

  Reactor& reactor_;
  DataSide& data_;
  TenantState& state_;
  Metadata& metadata_;
  MetadataServer& metadata_server_;
  std::unique_ptr<Identity> identity_;
  std::optional<TenantHandles> tenant_;
  std::unique_ptr<ThrashGuard> thrash_guard_;
  bool network_ = false;  // the tenant has the card
  Reactor::Clock::time_point started_ = Reactor::Clock::now();
};

}  // namespace firebreak::guest
