#include "session/sandbox_machines.h"

#include "machine/agent_client.h"

namespace firebreak::session {
namespace {

constexpr const char* kSessionTag = "firebreak:session";
constexpr const char* kAgentTag = "firebreak:agent";

class Supervised final : public SandboxMachines {
 public:
  Supervised(control::Supervisor& supervisor, Guests& guests)
      : supervisor_(supervisor), guests_(guests) {}

  net::Task<Result<core::MicrovmId>> launch(core::Tenant tenant, core::SandboxSession session,
                                            Deadline deadline) override {
    const core::SandboxTemplate& with = session.with;
    control::LaunchRequest request;
    request.image = with.image;
    request.egress = core::egress_of_environment(with.environment);
    request.role = with.role;
    request.tags = with.tags;
    request.tags[kSessionTag] = session.id.str();
    request.tags[kAgentTag] = session.agent;
    // The session ends it before; this holds also when no server watches.
    request.max_duration = with.session_limit + core::Seconds(60);
    FB_CO_TRY_ASSIGN(const core::Microvm begun,
                     co_await supervisor_.launch(tenant, std::move(request), deadline));
    FB_CO_TRY_ASSIGN(const core::Microvm now,
                     co_await supervisor_.wait_started(tenant.id, begun.id, deadline));
    if (now.state == core::MicrovmState::running) co_return now.id;
    (void)co_await supervisor_.terminate(tenant.id, begun.id,
                                         Deadline::in(std::chrono::seconds(30)),
                                         "Its session could not begin.");
    co_return fail(Code::unavailable, "the session's microVM did not start: " + now.state_reason,
                   Repair{"try again; if it goes on, look at the image"});
  }

  net::Task<Result<>> verify(core::TenantId tenant, core::MicrovmId microvm,
                             Deadline deadline) override {
    const control::LivePtr vm = supervisor_.live().find(tenant, microvm);
    if (!vm) co_return fail(Code::conflict, "the session's microVM has ended");
    control::Services& services = supervisor_.services();
    FB_CO_TRY_ASSIGN(machine::Engine* const engine, services.engines.get(vm->record().engine));
    const std::string directory = engine->snapshot_directory(vm->version().snapshot);
    FB_CO_TRY(co_await net::run_blocking(
        services.pool, [engine, directory] { return engine->verify_snapshot(directory); }));
    FB_CO_TRY_ASSIGN(const control::Lease lease,
                     co_await supervisor_.acquire(tenant, microvm, deadline));
    FB_CO_TRY_ASSIGN(const machine::AgentHealth health, co_await lease.agent().health(deadline));
    if (health.generation != lease.microvm().generation)
      co_return fail(Code::guest, "the agent that answers is not the one that was woken");
    co_return Result<>();
  }

  net::Task<Result<Guest>> enter(core::TenantId tenant, core::MicrovmId microvm,
                                 Deadline deadline) override {
    return guests_.enter(std::move(tenant), std::move(microvm), deadline);
  }

  net::Task<Result<>> end(core::TenantId tenant, core::MicrovmId microvm, std::string why,
                          Deadline deadline) override {
    auto ended = co_await supervisor_.terminate(std::move(tenant), std::move(microvm), deadline,
                                                std::move(why));
    if (!ended && ended.error().code != Code::not_found) co_return std::unexpected(ended.error());
    co_return Result<>();
  }

  std::uint64_t cpu_seconds(const core::MicrovmId& microvm) const override {
    const control::LivePtr vm = supervisor_.live().find(microvm);
    return vm ? vm->used.meter.total.cpu_usec / 1'000'000 : 0;
  }

  std::multimap<core::SessionId, core::Microvm> living() const override {
    std::multimap<core::SessionId, core::Microvm> found;
    for (const control::LivePtr& vm : supervisor_.live().all()) {
      const auto at = vm->record().tags.find(kSessionTag);
      if (at != vm->record().tags.end()) found.emplace(core::SessionId(at->second), vm->record());
    }
    return found;
  }

 private:
  control::Supervisor& supervisor_;
  Guests& guests_;
};

}  // namespace

std::unique_ptr<SandboxMachines> make_sandbox_machines(control::Supervisor& supervisor,
                                                       Guests& guests) {
  return std::make_unique<Supervised>(supervisor, guests);
}

}  // namespace firebreak::session
