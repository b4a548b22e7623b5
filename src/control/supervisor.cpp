#include "control/supervisor.h"

#include "control/recovery.h"

namespace firebreak::control {
namespace {

// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);
constexpr core::Seconds kAccountAgain{1};

}  // namespace

Supervisor::Supervisor(Services& services)
    : services_(services),
      pool_(services, [this] { return capacity_.has_room(); }),
      transitions_(services, live_, pool_.foreground()),
      capacity_(services, live_, pool_, transitions_.suspending),
      waking_({.engines = services.engines,
               .db = services.db,
               .gate = services.gate,
               .clock = services.clock,
               .traffic = services.traffic,
               .live = live_,
               .capacity = capacity_,
               .starting = transitions_.starting}),
      ticker_(services, live_, transitions_, capacity_),
      tasks_(services.executor, services.exceptions()),
      launching_({.engines = services.engines,
                  .db = services.db,
                  .gate = services.gate,
                  .clock = services.clock,
                  .pauses = services.pauses,
                  .steps = services.steps,
                  .live = live_,
                  .transitions = transitions_,
                  .pool = pool_,
                  .capacity = capacity_,
                  .executor = services.executor,
                  .tasks = tasks_}) {
  obs::Metrics& m = services_.metrics;
  m.describe("firebreak_launches_total", "counter", "Launches by path: parked or restored.");
  m.describe("firebreak_launch_seconds", "histogram", "From accepted to RUNNING.");
  m.describe("firebreak_resume_seconds", "histogram", "From asked to RUNNING.");
  m.describe("firebreak_suspend_seconds", "histogram", "From asked to SUSPENDED.");
  m.describe("firebreak_phase_seconds", "histogram", "Phases of launch, suspend and resume.");
  m.describe("firebreak_transitions_total", "counter", "State changes by the state reached.");
  m.describe("firebreak_microvms", "gauge", "MicroVMs by state.");
  m.describe("firebreak_microvms_out_of_disk", "gauge",
             "MicroVMs that stand still because the host's disk is full.");
  m.describe("firebreak_pool_size", "gauge", "Parked clones.");
  m.describe("firebreak_errors_total", "counter", "Failed operations by code.");
  m.describe("firebreak_reclaimed_total", "counter", "What was given up for memory, by kind.");
}

net::Task<Result<>> Supervisor::start() {
  FB_CO_TRY(co_await transitions_.roles.load());
  Spawn background = [this](std::string name, net::Task<void> task, std::string id) {
    tasks_.spawn(std::move(name), std::move(task), std::move(id));
  };
  FB_CO_TRY_ASSIGN(const Recovered found,
                   co_await recover(services_, live_, transitions_, std::move(background)));
  services_.log.info("recovered", {{"adopted", found.adopted},
                                   {"suspended", found.suspended},
                                   {"finished", found.finished},
                                   {"ended", found.ended},
                                   {"relaunched", found.relaunched},
                                   {"removed", found.removed},
                                   {"waiting", found.waiting}});
  FB_CO_TRY_ASSIGN(const auto versions, co_await services_.db.run([](const store::Store& store) {
    return store.all_versions();
  }));
  for (const core::ImageVersion& version : versions) {
    auto image = co_await services_.db.run([&version](const store::Store& store) {
      return store.find_image(core::kSystemTenant, version.image);
    });
    auto size = core::size_for(version.memory_mib);
    if (image && *image && runnable(version) && size) pool_.keep(version, *size, true);
  }
  tasks_.spawn("pool", pool_.run());
  ticker_.start();
  co_return Result<>();
}

net::Task<void> Supervisor::stop(Deadline deadline) {
  stopping_ = true;
  co_await pool_.stop(deadline);
  co_await ticker_.stop(deadline);
  // What is under way may end well; what does not is cut as by a crash, which loses nothing.
  if (!co_await tasks_.wait(deadline))
    services_.log.warn("tasks are cut", {{"running", static_cast<int>(tasks_.size())}});
  (void)co_await tasks_.close(Deadline::in(kCutTime));
  (void)co_await transitions_.watching.stop(Deadline::in(kCutTime));
  co_await ticker_.save_meters({});
}

net::Task<Result<core::Microvm>> Supervisor::launch(const core::Tenant& tenant,
                                                    LaunchRequest request, Deadline deadline) {
  if (stopping_)
    co_return fail(Code::unavailable, Reason{"stopping"}, "the server is stopping",
                   Repair{"try again shortly"});
  co_return co_await launching_.launch(tenant, std::move(request), deadline);
}

net::Task<Result<core::Microvm>> Supervisor::suspend(core::TenantId tenant, core::MicrovmId id,
                                                     Deadline deadline) {
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await waking_.find(tenant, id));
  FB_CO_TRY(co_await transitions_.suspending.suspend(vm, "", deadline));
  co_return vm->record();
}

net::Task<Result<core::Microvm>> Supervisor::resume(core::TenantId tenant, core::MicrovmId id,
                                                    Deadline deadline) {
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await waking_.find(tenant, id));
  FB_CO_TRY(co_await waking_.wake(vm, deadline));
  co_return vm->record();
}

net::Task<Result<core::Microvm>> Supervisor::terminate(core::TenantId tenant, core::MicrovmId id,
                                                       Deadline deadline, std::string why) {
  const LivePtr vm = live_.find(tenant, id);
  if (!vm) co_return co_await get(tenant, id);  // ended before: success
  FB_CO_TRY(co_await transitions_.ending.terminate(vm, std::move(why), deadline));
  co_return vm->record();
}

net::Task<Result<std::vector<core::Microvm>>> Supervisor::fork(const core::Tenant& tenant,
                                                               core::MicrovmId id,
                                                               std::uint32_t count,
                                                               Deadline deadline) {
  FB_CO_TRY_ASSIGN(LivePtr parent, co_await waking_.find(tenant.id, id));
  co_return co_await launching_.fork(tenant, std::move(parent), count, deadline);
}

net::Task<Result<core::Microvm>> Supervisor::update(core::TenantId tenant, core::MicrovmId id,
                                                    MicrovmUpdate update, Deadline deadline) {
  if (update.idle && *update.idle) FB_CO_TRY(core::check(**update.idle));
  if (update.name && !update.name->empty()) FB_CO_TRY(core::check_microvm_name(*update.name));
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await waking_.find(tenant, id));
  FB_CO_TRY(engine_for(services_.engines, vm->record().engine,
                       update.egress && egress().gives_network(*update.egress),
                       update.idle && *update.idle));
  if (update.egress) FB_CO_TRY(co_await egress().check_choice(tenant, *update.egress));
  FB_CO_TRY(co_await transitions_.changing.change_record(
      vm,
      {.idle = update.idle, .max_duration = update.max_duration, .name = std::move(update.name)},
      deadline));
  if (update.egress)
    FB_CO_TRY(
        co_await transitions_.changing.change_egress(vm, *std::move(update.egress), deadline));
  co_return vm->record();
}

net::Task<bool> Supervisor::settle(core::MicrovmId id) {
  const LivePtr vm = live_.find(id);
  if (!vm) co_return false;
  co_return co_await transitions_.ending.mend(vm, services_.pool);
}

std::optional<Supervisor::Outlook> Supervisor::outlook(const core::MicrovmId& id) const {
  const LivePtr vm = live_.find(id);
  if (!vm) return std::nullopt;
  const core::Time now = services_.clock.now();
  const core::Aging aging = core::aging_of(vm->record());
  const bool stands = vm->machine() && vm->machine()->out_of_disk();
  return Outlook{stands ? kNoDisk : core::awake_reason(aging, vm->used.activity, now),
                 core::next_due(aging, vm->used.activity, now)};
}

net::Task<void> Supervisor::account_now(core::TenantId tenant) {
  const core::Time now = services_.clock.now();
  core::Time& last = accounted_[tenant];
  if (now >= last && now - last < kAccountAgain) co_return;
  last = now;
  for (const LivePtr& vm : live_.all()) {
    if (vm->record().tenant == tenant) ticker_.sample(*vm, now);
  }
  co_await ticker_.save_meters(tenant);
}

}  // namespace firebreak::control
