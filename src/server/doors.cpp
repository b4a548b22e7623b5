#include "server/doors.h"

#include "api/native/native_api.h"
#include "api/probes.h"
#include "obs/exceptions.h"
#include "server/aws_services.h"

namespace firebreak::server {

Result<std::unique_ptr<Doors>> Doors::open(const ServerConfig& config,
                                           const Surroundings& surroundings, Storage& storage,
                                           ControlRoom& control) {
  std::unique_ptr<Doors> doors(new Doors());
  FB_TRY_ASSIGN(
      ingress::TokenKeys keys,
      ingress::TokenKeys::load(config.data_dir + "/endpoint.keys", surroundings.clock.now()));
  control::Supervisor& supervisor = control.supervisor();
  doors->tokens_ =
      std::make_unique<ingress::TokenRing>(supervisor, std::move(keys), surroundings.pool);
  doors->guests_ = std::make_unique<session::Guests>(supervisor);
  doors->machines_ = session::make_sandbox_machines(supervisor, *doors->guests_);
  doors->sessions_ = std::make_unique<session::Sandboxes>(control.services(), *doors->machines_);
  doors->entrance_ = std::make_unique<ingress::GuestEntrance>(supervisor.live(), *doors->guests_);
  doors->proxy_ = std::make_unique<ingress::Proxy>(
      surroundings.io.get_executor(), *doors->entrance_, doors->tokens_->checker(),
      surroundings.metrics,
      ingress::ProxyOptions{.domain = config.endpoint_domain,
                            .limits_by_size = config.endpoint_limits},
      obs::Exceptions{surroundings.log, surroundings.metrics});
  doors->artifacts_ = std::make_unique<api::Artifacts>(storage.objects(), storage.remote_objects(),
                                                       supervisor.roles(), surroundings.pool,
                                                       control.builds().directory());
  FB_TRY(doors->add_facades(config, surroundings, storage, control));
  return doors;
}

net::Task<Result<>> Doors::start() {
  sandboxes_->start();
  co_return co_await sessions_->start();
}

net::Task<void> Doors::close(Deadline deadline) {
  co_await sessions_->stop(deadline);
  (void)co_await sandboxes_->close(deadline);
}

// The order in which they are asked.
Result<> Doors::add_facades(const ServerConfig& config, const Surroundings& surroundings,
                            Storage& storage, ControlRoom& control) {
  // AWS first: its requests are told by their signature, whatever their path.
  FB_TRY_ASSIGN(auto aws, make_aws_api(config, {.supervisor = control.supervisor(),
                                                .images = control.images(),
                                                .builds = control.builds(),
                                                .keys = storage.keys(),
                                                .objects = storage.objects(),
                                                .artifacts = *artifacts_,
                                                .pool = surroundings.pool,
                                                .tokens = *tokens_,
                                                .endpoint = [this](const core::Microvm& microvm) {
                                                  return endpoints_.of(microvm.endpoint);
                                                }}));
  FB_TRY(front_.add(std::move(aws)));
  FB_TRY(front_.add(std::make_unique<api::NativeApi>(
      control.supervisor(), *guests_, *sessions_, storage.keys(), storage.secrets(),
      control.images(), control.builds(), surroundings.pool, *tokens_, endpoints_,
      [&control](bool repair) { return control.check(repair); })));
  FB_TRY(front_.add(make_mcp_api(surroundings, storage, control.supervisor())));
  return front_.add(std::make_unique<api::Probes>(surroundings.metrics));
}

std::unique_ptr<api::mcp::McpApi> Doors::make_mcp_api(const Surroundings& surroundings,
                                                      Storage& storage,
                                                      control::Supervisor& supervisor) {
  const session::DefaultSandboxOptions options;
  sandboxes_ = std::make_unique<session::DefaultSandboxes>(supervisor, options);
  turns_ = std::make_unique<session::CodeTurns>(surroundings.io.get_executor());
  return std::make_unique<api::mcp::McpApi>(api::mcp::Parts{.supervisor = supervisor,
                                                            .guests = *guests_,
                                                            .sandboxes = *sandboxes_,
                                                            .turns = *turns_,
                                                            .tokens = *tokens_,
                                                            .endpoints = endpoints_},
                                            storage.keys(), options.session_life);
}

}  // namespace firebreak::server
