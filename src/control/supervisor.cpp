#include "control/supervisor.h"

#include <algorithm>

#include "control/recovery.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);

Error not_found(const core::MicrovmId& id) {
  return {Code::not_found, "there is no microVM " + id.str(), {}};
}

// The engine of that name, if it is here and can do what is asked for.
Result<const machine::Engine*> engine_for(const machine::Engines& engines, const std::string& name,
                                          bool network, bool idle) {
  FB_TRY_ASSIGN(const machine::Engine* const engine, engines.get(name));
  if (network) FB_TRY(machine::require(*engine, machine::Feature::network));
  if (idle) FB_TRY(machine::require(*engine, machine::Feature::suspend));
  return engine;
}

}  // namespace

// ------------------------------------------------------------------------------------------- lease

Lease::Lease(LivePtr vm, Services& services)
    : vm_(std::move(vm)), machine_(vm_->machine), services_(&services) {
  const core::Time now = services_->clock.now();
  vm_->activity.saw_traffic(now);
  vm_->activity.begin_work(now);
}

Lease::~Lease() {
  if (vm_) vm_->activity.end_work(services_->clock.now());
}

void Lease::count(std::uint64_t in, std::uint64_t out) const {
  vm_->bytes_in += in;
  vm_->bytes_out += out;
  vm_->activity.saw_traffic(services_->clock.now());
  if (in > 0) services_->traffic.in.add(static_cast<double>(in));
  if (out > 0) services_->traffic.out.add(static_cast<double>(out));
}

// ------------------------------------------------------------------------------------- start, stop

Supervisor::Supervisor(Services& services)
    : services_(services),
      lifecycle_(services, registry_),
      pool_(services, [this] { return capacity_.has_room(); }),
      capacity_(services, registry_, pool_, lifecycle_),
      ticker_(services, registry_, lifecycle_, capacity_),
      tasks_(services.executor, services.exceptions()) {
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
  FB_CO_TRY(co_await lifecycle_.roles().load());
  Spawn background = [this](std::string name, net::Task<void> task, std::string id) {
    tasks_.spawn(std::move(name), std::move(task), std::move(id));
  };
  FB_CO_TRY_ASSIGN(const Recovered found,
                   co_await recover(services_, registry_, lifecycle_, std::move(background)));
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
  (void)co_await lifecycle_.stop_watching(Deadline::in(kCutTime));
  co_await ticker_.save_meters({});
}

// ------------------------------------------------------------------------------------------ launch

net::Task<Result<Supervisor::Chosen>> Supervisor::choose(core::TenantId tenant,
                                                         const LaunchRequest& request,
                                                         Deadline deadline) {
  for (;;) {
    auto chosen = co_await choose_now(tenant, request);
    // The first build of an image is under way: whoever asks for it already waits for it.
    if (chosen || chosen.error().code != Code::unavailable || deadline.passed()) co_return chosen;
    net::Event pause(services_.executor);
    (void)co_await pause.wait(Deadline::in(std::chrono::milliseconds(200)));
  }
}

net::Task<Result<Supervisor::Chosen>> Supervisor::choose_now(core::TenantId tenant,
                                                             const LaunchRequest& request) {
  struct Found {
    std::optional<core::Image> image;
    std::optional<core::ImageVersion> version;
  };
  auto found = co_await services_.db.run([&](const store::Store& store) -> Result<Found> {
    Found found;
    FB_TRY_ASSIGN(found.image, request.image.starts_with("image-")
                                   ? store.find_image(tenant, core::ImageId(request.image))
                                   : store.find_image_by_name(tenant, request.image));
    if (!found.image) return found;
    FB_TRY_ASSIGN(found.version, request.version
                                     ? store.find_version(found.image->id, *request.version)
                                     : store.latest_runnable(found.image->id));
    return found;
  });
  if (!found) co_return std::unexpected(found.error());
  const auto& [image, version] = *found;
  if (!image) {
    co_return fail(Code::not_found, "there is no image " + request.image +
                                        "; `firebreak image ls` lists those you can run");
  }
  if (!version || !core::runnable(*version)) {
    const core::ImageState state = image->state;
    if (!request.version &&
        (state == core::ImageState::creating || state == core::ImageState::updating))
      co_return fail(Code::unavailable,
                     "image " + image->name + " is being built; try again shortly");
    co_return fail(Code::not_found, request.version
                                        ? "version " + core::version_text(*request.version) +
                                              " of image " + image->name +
                                              " does not exist or is not active"
                                        : "image " + image->name + " has no version that can run");
  }
  FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(version->memory_mib));
  co_return Chosen{*image, *version, size};
}

net::Task<Result<core::Microvm>> Supervisor::launch(const core::Tenant& tenant,
                                                    LaunchRequest request, Deadline deadline) {
  if (stopping_) co_return fail(Code::unavailable, "the server is stopping; try again shortly");
  if (request.idle) FB_CO_TRY(core::check(*request.idle));
  if (!request.name.empty()) FB_CO_TRY(core::check_microvm_name(request.name));
  FB_CO_TRY(core::check_environment(request.env));
  if (request.payload.size() > core::kMaxRunPayload) {
    co_return fail(Code::invalid, "the payload may have at most 4096 bytes");
  }
  FB_CO_TRY(co_await services_.gate.ask({.tenant = tenant.id, .act = Act::launch}));
  const core::Time now = services_.clock.now();
  FB_CO_TRY_ASSIGN(Chosen chosen, co_await choose(tenant.id, request, deadline));
  FB_CO_TRY_ASSIGN(std::string egress, co_await lifecycle_.egress().choose(
                                           tenant, std::move(request.egress), chosen.version));
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine,
                   engine_for(services_.engines, chosen.version.engine,
                              lifecycle_.egress().gives_network(egress), request.idle.has_value()));
  if (!request.role.empty()) FB_CO_TRY(lifecycle_.roles().require(tenant.id, request.role));
  FB_CO_TRY_ASSIGN(Room room, co_await capacity_.admit(tenant.id, chosen.size, deadline));

  // From here on, or the clone's successor would be made while it starts.
  const Foreground foreground(services_);
  auto clone = pool_.take(chosen.version, chosen.size, lifecycle_.egress().gives_network(egress));
  core::Microvm microvm;
  microvm.id = clone ? core::MicrovmId(clone->machine->id()) : core::new_microvm_id();
  microvm.tenant = tenant.id;
  microvm.endpoint = core::EndpointId(core::new_uuid());
  microvm.image = chosen.image.id;
  microvm.image_name = chosen.image.name;
  microvm.image_version = chosen.version.number;
  microvm.memory_mib = chosen.size.memory_mib;
  microvm.intent = core::Intent::launch;
  microvm.idle = request.idle;
  microvm.max_duration = request.max_duration;
  microvm.payload = std::move(request.payload);
  microvm.client_token = std::move(request.client_token);
  microvm.request_hash = std::move(request.request_hash);
  microvm.tags = std::move(request.tags);
  microvm.config = std::move(request.config);
  microvm.egress = std::move(egress);
  microvm.role = std::move(request.role);
  microvm.name = std::move(request.name);
  microvm.env = std::move(request.env);
  microvm.engine = engine->name();
  microvm.isolation = engine->isolation();
  microvm.started = microvm.state_since = now;
  auto created = co_await services_.db.run(
      [&](store::Store& store) -> Result<store::Store::Created> {
        // Removed since it was chosen: its snapshot is going.
        FB_TRY_ASSIGN(const auto still, store.find_version(microvm.image, microvm.image_version));
        if (!still) return fail(Code::not_found, "the image was removed");
        return store.create_microvm(microvm, tenant.limits);
      },
      // A power cut would end the microVM as well; what must last is what the caller was told.
      store::Durability::later);
  if (!created || !created->created) {
    if (clone) pool_.give_back(chosen.version, *std::move(clone));
    if (!created && created.error().code == Code::not_found) co_await pool_.drop(chosen.version);
    if (!created) co_return std::unexpected(created.error());
    co_return created->microvm;
  }
  services_.reach("pending");
  auto vm = std::make_shared<LiveMicrovm>(services_.executor, created->microvm, chosen.version,
                                          chosen.size);
  registry_.add(vm);
  room.release();
  const core::Microvm record = vm->record;
  tasks_.spawn("launch", lifecycle_.launch(vm, clone ? std::move(clone->machine) : nullptr),
               record.id.str());
  // While it starts: what a start looks up does not wait for the disk.
  const auto kept = co_await services_.db.sync();
  if (!kept) {
    (void)co_await lifecycle_.terminate(vm, "It could not be recorded.",
                                        Deadline::in(std::chrono::seconds(60)));
    co_return std::unexpected(kept.error());
  }
  co_return record;
}

net::Task<Result<core::Microvm>> Supervisor::wait_started(core::TenantId tenant, core::MicrovmId id,
                                                          Deadline deadline) {
  for (;;) {
    const LivePtr vm = registry_.find(tenant, id);
    if (!vm) co_return co_await get(tenant, id);
    const MicrovmState state = vm->record.state;
    if (state != MicrovmState::pending && state != MicrovmState::terminating) co_return vm->record;
    if (deadline.passed()) co_return vm->record;
    (void)co_await vm->changed.wait(deadline);
  }
}

// -------------------------------------------------------------------------------------- operations

net::Task<Result<core::Microvm>> Supervisor::get(core::TenantId tenant, core::MicrovmId id) {
  if (LivePtr vm = registry_.find(tenant, id)) co_return vm->record;
  auto found = co_await services_.db.run(
      [&](const store::Store& store) { return store.find_microvm(tenant, id); });
  if (!found) co_return std::unexpected(found.error());
  if (!*found) co_return std::unexpected(not_found(id));
  co_return **found;
}

// Only those that are not TERMINATED; of one that is, Code::conflict. Code::unavailable of one
// whose engine this server does not have: nothing can be done with it here.
net::Task<Result<LivePtr>> Supervisor::find(core::TenantId tenant, core::MicrovmId id) {
  if (LivePtr vm = registry_.find(tenant, id)) {
    FB_CO_TRY(services_.engines.get(vm->record.engine));
    co_return vm;
  }
  FB_CO_TRY_ASSIGN(const core::Microvm gone, co_await get(tenant, id));
  co_return fail(Code::conflict,
                 "the microVM is " + std::string(to_string(gone.state)) + ": " + gone.state_reason);
}

net::Task<Result<core::Microvm>> Supervisor::suspend(core::TenantId tenant, core::MicrovmId id,
                                                     Deadline deadline) {
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await find(tenant, id));
  FB_CO_TRY(co_await lifecycle_.suspend(vm, "", deadline));
  co_return vm->record;
}

net::Task<Result<core::Microvm>> Supervisor::resume(core::TenantId tenant, core::MicrovmId id,
                                                    Deadline deadline) {
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await find(tenant, id));
  FB_CO_TRY(co_await wake(vm, deadline));
  co_return vm->record;
}

net::Task<Result<>> Supervisor::wake(LivePtr vm, Deadline deadline) {
  // Many may call one that sleeps: it needs room once.
  FB_CO_TRY_ASSIGN(auto waking_turn, co_await vm->waking_turn.lock(deadline));
  if (vm->record.state != MicrovmState::suspended)
    co_return co_await lifecycle_.resume(vm, deadline);
  FB_CO_TRY(co_await services_.gate.ask(
      {.tenant = vm->record.tenant, .act = Act::wake, .microvm = vm->record.id}));
  FB_CO_TRY_ASSIGN(Room room, co_await capacity_.admit(vm->record.tenant, vm->size, deadline));
  vm->waking = true;
  registry_.recount(*vm);
  room.release();
  auto resumed = co_await lifecycle_.resume(vm, deadline);
  vm->waking = false;
  registry_.recount(*vm);
  co_return resumed;
}

net::Task<Result<core::Microvm>> Supervisor::terminate(core::TenantId tenant, core::MicrovmId id,
                                                       Deadline deadline, std::string why) {
  const LivePtr vm = registry_.find(tenant, id);
  if (!vm) co_return co_await get(tenant, id);  // ended before: success
  FB_CO_TRY(co_await lifecycle_.terminate(vm, std::move(why), deadline));
  co_return vm->record;
}

net::Task<Result<std::vector<core::Microvm>>> Supervisor::fork(const core::Tenant& tenant,
                                                               core::MicrovmId id,
                                                               std::uint32_t count,
                                                               Deadline deadline) {
  if (count == 0 || count > 64) co_return fail(Code::invalid, "fork makes 1 to 64 copies");
  FB_CO_TRY_ASSIGN(LivePtr parent, co_await find(tenant.id, id));
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine,
                   services_.engines.get(parent->record.engine));
  FB_CO_TRY(machine::require(*engine, machine::Feature::fork));
  FB_CO_TRY(co_await services_.gate.ask(
      {.tenant = tenant.id, .act = Act::fork, .microvm = id, .count = count}));
  std::vector<LivePtr> children;
  std::vector<std::string> ids;
  Result<> made;
  for (std::uint32_t i = 0; i < count && made; ++i) {
    auto room = co_await capacity_.admit(tenant.id, parent->size, deadline);
    if (!room) {
      made = std::unexpected(room.error());
      break;
    }
    core::Microvm child = parent->record;
    child.id = core::new_microvm_id();
    child.endpoint = core::EndpointId(core::new_uuid());
    child.parent = parent->record.id;
    child.state = MicrovmState::pending;
    child.intent = core::Intent::fork;
    child.client_token.clear();
    child.name.clear();
    child.state_reason.clear();
    child.started = child.state_since = services_.clock.now();
    auto created = co_await services_.db.run(
        [&](store::Store& store) { return store.create_microvm(child, tenant.limits); });
    if (!created) {
      made = std::unexpected(created.error());
      break;
    }
    auto vm = std::make_shared<LiveMicrovm>(services_.executor, created->microvm, parent->version,
                                            parent->size);
    registry_.add(vm);
    children.push_back(vm);
    ids.push_back(vm->record.id.str());
  }
  if (made) made = co_await lifecycle_.fork(parent, ids, deadline);
  if (!made) {
    for (const LivePtr& child : children)
      (void)co_await lifecycle_.terminate(child, "The fork failed: " + made.error().message,
                                          Deadline::in(std::chrono::seconds(60)));
    co_return std::unexpected(made.error());
  }
  std::vector<core::Microvm> records;
  for (const LivePtr& child : children) {
    records.push_back(child->record);
    tasks_.spawn("fork", lifecycle_.launch_fork(child), child->record.id.str());
  }
  co_return records;
}

net::Task<Result<core::Microvm>> Supervisor::update(core::TenantId tenant, core::MicrovmId id,
                                                    MicrovmUpdate update, Deadline deadline) {
  if (update.idle && *update.idle) FB_CO_TRY(core::check(**update.idle));
  if (update.name && !update.name->empty()) FB_CO_TRY(core::check_microvm_name(*update.name));
  FB_CO_TRY_ASSIGN(LivePtr vm, co_await find(tenant, id));
  FB_CO_TRY(engine_for(services_.engines, vm->record.engine,
                       update.egress && lifecycle_.egress().gives_network(*update.egress),
                       update.idle && *update.idle));
  if (update.egress) FB_CO_TRY(co_await lifecycle_.egress().check_choice(tenant, *update.egress));
  FB_CO_TRY(co_await lifecycle_.change_record(
      vm,
      {.idle = update.idle, .max_duration = update.max_duration, .name = std::move(update.name)},
      deadline));
  if (update.egress)
    FB_CO_TRY(co_await lifecycle_.change_egress(vm, *std::move(update.egress), deadline));
  co_return vm->record;
}

net::Task<Result<>> Supervisor::note(core::MicrovmId id, std::string what) {
  const core::Time now = services_.clock.now();
  FB_CO_TRY(
      co_await services_.db.run([&](store::Store& store) { return store.note(id, what, now); }));
  services_.changed.notify();
  co_return Result<>();
}

net::Task<bool> Supervisor::settle(core::MicrovmId id) {
  const LivePtr vm = registry_.find(id);
  if (!vm) co_return false;
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  auto turn = co_await vm->turn.lock(deadline);
  if (!turn) co_return false;
  if (vm->record.state == MicrovmState::suspended) {
    const auto engine = services_.engines.get(vm->record.engine);
    if (!engine) co_return false;
    auto list = [engine = *engine]() { return engine->list(); };
    const auto found = co_await services_.blocking(list);
    if (!found) co_return false;
    const auto at = std::ranges::find(*found, id.str(), &machine::FoundMachine::id);
    if (at == found->end() || !at->suspended) co_return false;
    // Attaching ends what runs beside a saved state.
    (void)co_await (*engine)->attach(id.str(), deadline);
    co_return true;
  }
  if (vm->record.state != MicrovmState::running) co_return true;
  const bool gone =
      !vm->machine || co_await vm->machine->wait_exit(Deadline::in(std::chrono::seconds(0)));
  if (gone) co_await lifecycle_.end(vm, "The machine's process is gone.", false);
  co_return gone;
}

net::Task<Result<Lease>> Supervisor::acquire(core::TenantId tenant, core::MicrovmId id,
                                             Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(LivePtr vm, co_await find(tenant, id));
    switch (vm->record.state) {
      case MicrovmState::running:
        if (vm->machine && vm->machine->out_of_disk()) {
          registry_.note(*vm);  // the ticker minds it from now on
          co_return fail(Code::unavailable, kNoDisk);
        }
        if (vm->machine) co_return Lease(vm, services_);
        break;
      case MicrovmState::suspended: {
        if (vm->record.idle && !vm->record.idle->auto_resume) {
          co_return fail(Code::conflict,
                         "the microVM is SUSPENDED and its policy resumes it only when asked; "
                         "resume it first");
        }
        FB_CO_TRY(co_await wake(vm, deadline));
        continue;
      }
      case MicrovmState::terminating:
        co_return fail(Code::conflict, "the microVM is TERMINATING: " + vm->record.state_reason);
      default:
        break;
    }
    if (deadline.passed()) {
      co_return fail(Code::timeout,
                     "the microVM was still " + std::string(to_string(vm->record.state)));
    }
    (void)co_await vm->changed.wait(deadline);
  }
}

}  // namespace firebreak::control
