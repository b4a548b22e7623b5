#include "control/launching.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

constexpr core::Millis kLookAgain{200};
constexpr auto kUndoTime = std::chrono::seconds(60);
constexpr std::uint32_t kMostChildren = 64;

Result<> check(const LaunchRequest& request) {
  if (request.idle) FB_TRY(core::check(*request.idle));
  if (!request.name.empty()) FB_TRY(core::check_microvm_name(request.name));
  FB_TRY(core::check_environment(request.env));
  if (request.payload.size() > core::kMaxRunPayload)
    return fail(Code::invalid, "the payload may have at most 4096 bytes");
  return {};
}

Error not_runnable(const core::Image& image, const std::optional<std::uint32_t>& version) {
  const core::ImageState state = image.state;
  if (!version && (state == core::ImageState::creating || state == core::ImageState::updating))
    return fail(Code::unavailable, Reason{"being_built"}, "image " + image.name + " is being built",
                Repair{"try again shortly"})
        .error();
  return fail(Code::not_found, Reason{"version_not_found"},
              version ? "version " + core::version_text(*version) + " of image " + image.name +
                            " does not exist or is not active"
                      : "image " + image.name + " has no version that can run")
      .error();
}

}  // namespace

Result<const machine::Engine*> engine_for(const machine::Engines& engines, const std::string& name,
                                          bool network, bool idle) {
  FB_TRY_ASSIGN(const machine::Engine* const engine, engines.get(name));
  if (network) FB_TRY(machine::require(*engine, machine::Feature::network));
  if (idle) FB_TRY(machine::require(*engine, machine::Feature::suspend));
  return engine;
}

// ------------------------------------------------------------------------------------------ choice

net::Task<Result<RunnableVersion>> Launching::choose(core::TenantId tenant,
                                                     const LaunchRequest& request,
                                                     Deadline deadline) {
  if (request.chosen) co_return *request.chosen;
  for (;;) {
    auto chosen = co_await choose_now(tenant, request);
    // The first build of an image is under way: whoever asks for it already waits for it.
    if (chosen || chosen.error().code != Code::unavailable || deadline.passed()) co_return chosen;
    co_await needs_.pauses.pause(kLookAgain);
  }
}

net::Task<Result<RunnableVersion>> Launching::choose_now(core::TenantId tenant,
                                                         const LaunchRequest& request) {
  struct Found {
    std::optional<core::Image> image;
    std::optional<core::ImageVersion> version;
  };
  auto found = co_await needs_.db.run([&](const store::Store& store) -> Result<Found> {
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
  if (!image)
    co_return fail(Code::not_found, Reason{"image_not_found"}, "there is no image " + request.image,
                   Repair{"`firebreak image ls` lists those you can run"});
  if (!version || !core::runnable(*version))
    co_return std::unexpected(not_runnable(*image, request.version));
  co_return RunnableVersion{*image, *version};
}

net::Task<Result<Launching::Plan>> Launching::plan(const core::Tenant& tenant,
                                                   LaunchRequest& request, Deadline deadline) {
  const core::Time asked = needs_.clock.now();
  FB_CO_TRY_ASSIGN(RunnableVersion chosen, co_await choose(tenant.id, request, deadline));
  FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(chosen.version.memory_mib));
  Egress& egress = needs_.transitions.egress;
  FB_CO_TRY_ASSIGN(std::string policy,
                   co_await egress.choose(tenant, std::move(request.egress), chosen.version));
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine,
                   engine_for(needs_.engines, chosen.version.engine, egress.gives_network(policy),
                              request.idle.has_value()));
  if (!request.role.empty()) FB_CO_TRY(needs_.transitions.roles.require(tenant.id, request.role));
  co_return Plan{asked, std::move(chosen), size, std::move(policy), engine};
}

// ------------------------------------------------------------------------------------------ launch

core::Microvm Launching::record_of(const core::Tenant& tenant, LaunchRequest request,
                                   const Plan& plan) {
  core::Microvm microvm;
  microvm.tenant = tenant.id;
  microvm.endpoint = core::EndpointId(core::new_uuid());
  microvm.image = plan.chosen.image.id;
  microvm.image_name = plan.chosen.image.name;
  microvm.image_version = plan.chosen.version.number;
  microvm.memory_mib = plan.size.memory_mib;
  microvm.intent = core::Intent::launch;
  microvm.idle = request.idle;
  microvm.max_duration = request.max_duration;
  microvm.payload = std::move(request.payload);
  microvm.client_token = std::move(request.client_token);
  microvm.request_hash = std::move(request.request_hash);
  microvm.tags = std::move(request.tags);
  microvm.config = std::move(request.config);
  microvm.egress = plan.egress;
  microvm.role = std::move(request.role);
  microvm.name = std::move(request.name);
  microvm.env = std::move(request.env);
  microvm.engine = plan.engine->name();
  microvm.isolation = plan.engine->isolation();
  microvm.started = microvm.state_since = plan.asked;
  return microvm;
}

LivePtr Launching::go_live(core::Microvm record, const core::ImageVersion& version,
                           const core::SizeClass& size) {
  auto vm = std::make_shared<LiveMicrovm>(needs_.executor, std::move(record), version, size);
  needs_.live.add(vm);
  return vm;
}

net::Task<Result<core::Microvm>> Launching::launch(const core::Tenant& tenant,
                                                   LaunchRequest request, Deadline deadline) {
  FB_CO_TRY(check(request));
  FB_CO_TRY(co_await needs_.gate.ask({.tenant = tenant.id, .act = Act::launch}));
  FB_CO_TRY_ASSIGN(const Plan plan, co_await this->plan(tenant, request, deadline));
  FB_CO_TRY_ASSIGN(Room room, co_await needs_.capacity.admit(tenant.id, plan.size, deadline));

  // From here on, or the clone's successor would be made while it starts.
  const Foreground foreground(needs_.pool.foreground());
  const core::ImageVersion& version = plan.chosen.version;
  auto clone =
      needs_.pool.take(version, plan.size, needs_.transitions.egress.gives_network(plan.egress));
  core::Microvm microvm = record_of(tenant, std::move(request), plan);
  microvm.id = clone ? core::MicrovmId(clone->machine->id()) : core::new_microvm_id();
  auto created = co_await needs_.db.run(
      [&](store::Store& store) -> Result<store::Store::Created> {
        // Removed since it was chosen: its snapshot is going.
        FB_TRY_ASSIGN(const auto still, store.find_version(microvm.image, microvm.image_version));
        if (!still) return fail(Code::not_found, "the image was removed");
        return store.create_microvm(microvm, tenant.limits);
      },
      // A power cut would end the microVM as well; what must last is what the caller was told.
      store::Durability::later);
  if (!created || !created->created) {
    if (clone) needs_.pool.give_back(version, *std::move(clone));
    if (!created && created.error().code == Code::not_found) co_await needs_.pool.drop(version);
    if (!created) co_return std::unexpected(created.error());
    co_return created->microvm;
  }
  needs_.steps.reach("pending");
  const LivePtr vm = go_live(created->microvm, version, plan.size);
  room.release();
  const core::Microvm record = vm->record();
  needs_.tasks.spawn(
      "launch", needs_.transitions.starting.launch(vm, clone ? std::move(clone->machine) : nullptr),
      record.id.str());
  // While it starts: what a start looks up does not wait for the disk.
  const auto kept = co_await needs_.db.sync();
  if (kept) co_return record;
  (void)co_await needs_.transitions.ending.terminate(vm, "It could not be recorded.",
                                                     Deadline::in(kUndoTime));
  co_return std::unexpected(kept.error());
}

// -------------------------------------------------------------------------------------------- fork

core::Microvm Launching::child_of(const LiveMicrovm& parent) const {
  core::Microvm child = parent.record();
  child.id = core::new_microvm_id();
  child.endpoint = core::EndpointId(core::new_uuid());
  child.parent = parent.id();
  child.state = MicrovmState::pending;
  child.intent = core::Intent::fork;
  child.client_token.clear();
  child.name.clear();
  child.state_reason.clear();
  child.started = child.state_since = needs_.clock.now();
  return child;
}

net::Task<Result<std::vector<core::Microvm>>> Launching::fork(const core::Tenant& tenant,
                                                              LivePtr parent, std::uint32_t count,
                                                              Deadline deadline) {
  if (count == 0 || count > kMostChildren)
    co_return fail(Code::invalid, "fork makes 1 to 64 copies");
  FB_CO_TRY_ASSIGN(const machine::Engine* const engine,
                   needs_.engines.get(parent->record().engine));
  FB_CO_TRY(machine::require(*engine, machine::Feature::fork));
  FB_CO_TRY(co_await needs_.gate.ask(
      {.tenant = tenant.id, .act = Act::fork, .microvm = parent->id(), .count = count}));
  std::vector<Room> rooms;
  for (std::uint32_t i = 0; i < count; ++i) {
    FB_CO_TRY_ASSIGN(Room room,
                     co_await needs_.capacity.admit(tenant.id, parent->size(), deadline));
    rooms.push_back(std::move(room));
  }
  // All of them in one transaction: a limit that the last one meets leaves none of the others.
  FB_CO_TRY_ASSIGN(
      std::vector<core::Microvm> records,
      co_await needs_.db.run([&](store::Store& store) -> Result<std::vector<core::Microvm>> {
        std::vector<core::Microvm> made;
        for (std::uint32_t i = 0; i < count; ++i) {
          FB_TRY_ASSIGN(auto created, store.create_microvm(child_of(*parent), tenant.limits));
          made.push_back(std::move(created.microvm));
        }
        return made;
      }));
  std::vector<LivePtr> children;
  std::vector<std::string> ids;
  for (const core::Microvm& record : records) {
    children.push_back(go_live(record, parent->version(), parent->size()));
    ids.push_back(record.id.str());
  }
  rooms.clear();
  const auto made = co_await needs_.transitions.suspending.fork(parent, ids, deadline);
  if (!made) {
    for (const LivePtr& child : children)
      (void)co_await needs_.transitions.ending.terminate(
          child, "The fork failed: " + made.error().message, Deadline::in(kUndoTime));
    co_return std::unexpected(made.error());
  }
  for (const LivePtr& child : children)
    needs_.tasks.spawn("fork", needs_.transitions.starting.launch_fork(child), child->id().str());
  co_return records;
}

}  // namespace firebreak::control
