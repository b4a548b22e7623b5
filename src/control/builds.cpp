#include "control/builds.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/sys.h"
#include "control/build_keys.h"
#include "control/host_limits.h"
#include "control/version_config.h"
#include "image/base_copy.h"
#include "image/image_config_json.h"
#include "image/redactor.h"

namespace firebreak::control {
namespace {

using core::BuildState;
using core::VersionState;

constexpr std::size_t kMaxStepText = 1000;
// Other tenants' turns to plan included.
constexpr auto kOrderTime = std::chrono::minutes(10);
constexpr auto kLoadTime = std::chrono::seconds(60);
// A build that had no turn by then is given up.
constexpr auto kQueueTime = std::chrono::hours(6);
// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);

// The code that AWS's users know, by the reason of an error.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kBuildCodes{{
    {"archive_invalid", "ARCHIVE_INVALID"},
    {"archive_without_dockerfile", "ARCHIVE_DOCKERFILE_NOT_FOUND"},
    {"bucket_elsewhere", "S3_CROSS_REGION_ACCESS_DENIED"},
    {"bucket_not_found", "S3_NO_SUCH_BUCKET"},
    {"disk_full", "DISK_STORAGE_FULL"},
    {"object_archived", "S3_INVALID_OBJECT"},
    {"object_denied", "S3_ACCESS_DENIED"},
    {"object_not_found", "S3_NO_SUCH_KEY"},
}};

// That code, then what happened.
std::string reason_of(const Error& error) {
  const std::string& text = error.message;
  for (const auto& [reason, code] : kBuildCodes)
    if (error.reason == reason) return std::string(code) + ": " + text;
  switch (error.code) {
    case Code::guest:
    case Code::invalid:
    case Code::not_found:
    case Code::timeout:
    case Code::exhausted:
    case Code::conflict:
      return "CONTAINER_BUILD_FAILED: " + text;
    default:
      return "INTERNAL_PLATFORM_ERROR: " + text;
  }
}

json::array to_json(const std::vector<image::StepReport>& steps) {
  json::array out;
  for (const image::StepReport& step : steps) {
    out.push_back(json::object{{"text", step.text.substr(0, kMaxStepText)},
                               {"cached", step.cached},
                               {"ms", step.took_ms},
                               {"bytes", step.bytes}});
  }
  return out;
}

machine::TenantSpec tenant_of(const BuildRequest& request, const image::ImageConfig& config,
                              const core::Environment& env) {
  machine::TenantSpec tenant;
  tenant.env = env;
  tenant.all_capabilities = request.all_capabilities;
  tenant.user = config.user;
  tenant.cwd = config.workdir;
  const std::vector<std::string> argv = image::command_of(config);
  if (argv.empty()) return tenant;
  tenant.app_is_pid1 = true;
  tenant.app = machine::AppSpec{.argv = argv,
                                .env = {},
                                .cwd = config.workdir.empty() ? "/" : config.workdir,
                                .user = config.user.empty() ? "root" : config.user};
  return tenant;
}

}  // namespace

Builds::Builds(Services& services, Images& images, Egress& egress, Capacity& capacity,
               image::LayerCache& cache, image::CacheMounts& mounts, net::asio::thread_pool& pool,
               BuildsConfig config)
    : services_(services),
      images_(images),
      egress_(egress),
      capacity_(capacity),
      cache_(cache),
      mounts_(mounts),
      pool_(pool),
      config_(std::move(config)),
      bases_(services, pool, config_.bases),
      planner_(services.executor, bases_),
      queue_(services.executor, config_.parallel),
      tickets_("builds under way", config_.per_tenant),
      tasks_(services.executor, services.exceptions()) {
  (void)sys::mkdirs(config_.directory, 0700);
}

net::Task<Result<>> Builds::prune() {
  FB_CO_TRY(co_await prune_bases());
  FB_CO_TRY_ASSIGN(const auto of_mounts, mounts_.owners());
  FB_CO_TRY_ASSIGN(const auto of_layers, cache_.owners());
  std::set<std::string> owners(of_mounts.begin(), of_mounts.end());
  owners.insert(of_layers.begin(), of_layers.end());
  for (const std::string& owner : owners) FB_CO_TRY(co_await shrink_caches(core::TenantId(owner)));
  co_return Result<>();
}

net::Task<Result<>> Builds::forget(core::TenantId tenant) {
  FB_CO_TRY(cache_.shrink(tenant.str(), 0));
  auto remove = [&] { return mounts_.remove(tenant.str()); };
  FB_CO_TRY(co_await net::run_blocking(pool_, remove));
  co_return co_await images_.sweep();
}

net::Task<Result<CacheUse>> Builds::cache_use(core::TenantId tenant) {
  FB_CO_TRY_ASSIGN(const image::LayerCache::Usage layers, cache_.usage(tenant.str()));
  auto count = [&] { return mounts_.bytes(tenant.str()); };
  FB_CO_TRY_ASSIGN(const std::uint64_t mounts, co_await net::run_blocking(pool_, count));
  co_return CacheUse{.layers = layers.layers, .layer_bytes = layers.bytes, .mount_bytes = mounts};
}

net::Task<Result<>> Builds::shrink_caches(core::TenantId tenant) {
  FB_CO_TRY_ASSIGN(const auto found,
                   co_await services_.db.run(
                       [&tenant](const store::Store& store) { return store.find_tenant(tenant); }));
  if (!found) co_return co_await forget(tenant);
  FB_CO_TRY(cache_.shrink(tenant.str(), config_.cache_bytes));
  auto shrink = [&] { return mounts_.shrink(tenant.str(), config_.cache_mount_bytes); };
  co_return co_await net::run_blocking(pool_, shrink);
}

net::Task<Result<>> Builds::prune_bases() {
  std::set<std::string> used;
  for (const auto& [name, disk] : config_.bases.managed) used.insert(disk);
  used.insert(config_.bases.scratch_disk);
  FB_CO_TRY_ASSIGN(const auto all, co_await services_.db.run([](const store::Store& store) {
    return store.all_versions();
  }));
  for (const core::ImageVersion& version : all) {
    if (version.snapshot.empty()) continue;
    const auto disk = services_.catalogue.disk(core::snapshot_of(version));
    if (!disk) co_return Result<>();  // what it needs cannot be known
    used.insert(disk->base);
    used.insert(disk->layers.begin(), disk->layers.end());
  }
  co_return image::prune_disks(config_.bases.copies, used);
}

// ------------------------------------------------------------------------------------------ order

PlanOrder Builds::plan_order(const core::TenantId& tenant, const BuildRequest& request,
                             BuildRequest::Context context) const {
  return {.tenant = tenant,
          .context = std::move(context),
          .options = {.args = request.args,
                      .target = request.target,
                      .file_name = request.file,
                      .guest_ca = config_.ca ? config_.ca->mark.sha256 : ""},
          .registry = {}};
}

net::Task<Result<NewVersion>> Builds::order(core::Tenant tenant, BuildRequest request,
                                            Ticket ticket) {
  if (closing_) co_return fail(Code::unavailable, "the server is stopping");
  FB_CO_TRY(co_await services_.gate.ask({.tenant = tenant.id, .act = Act::build}));
  auto active = std::make_shared<Active>(services_.executor);
  active->ticket = std::move(ticket);
  active->egress = !request.build_egress.empty() ? request.build_egress
                   : !config_.egress.empty()     ? config_.egress
                                                 : tenant.egress.run_default;
  if (services_.networks == nullptr && request.build_egress.empty())
    active->egress = core::kNoEgress;
  FB_CO_TRY(co_await egress_.check_choice(tenant.id, active->egress));
  if (!request.egress.empty()) FB_CO_TRY(co_await egress_.find(tenant.id, request.egress));
  json::object config;
  if (request.context) {
    PlanOrder plan = plan_order(tenant.id, request, request.context);
    plan.with_digest = request.reuse_version;
    FB_CO_TRY_ASSIGN(const PlannedBuild planned,
                     co_await planner_.plan(std::move(plan), Deadline::in(kOrderTime)));
    if (!planned.digest.empty()) {
      // What guests trust is part of what is built.
      const std::string trusted = config_.ca ? config_.ca->mark.sha256 : std::string();
      const std::string key = order_key(request, planned.digest + trusted);
      FB_CO_TRY_ASSIGN(auto same, co_await same_version(tenant.id, request, key));
      if (same) co_return *std::move(same);
      config[kOrderKey] = key;
    }
  }
  if (!request.lambda.empty()) config["lambda"] = json::parse(request.lambda);
  core::ImageVersion draft{.state = VersionState::pending,
                           .memory_mib = request.memory_mib,
                           .hooks = request.hooks,
                           .env = request.env,
                           .config = json::serialize(config),
                           .egress = request.egress};
  FB_CO_TRY_ASSIGN(active->made,
                   co_await images_.begin(tenant.id, tenant.limits, request.name, request.tags,
                                          std::move(draft), request.prune_versions));
  active->tenant = std::move(tenant);
  active->request = std::move(request);
  active_[active->made.build.id] = active;
  tasks_.spawn("build", run(active), active->made.build.id.str());
  co_return active->made;
}

net::Task<Result<NewVersion>> Builds::order_now(core::Tenant tenant, BuildRequest request) {
  FB_CO_TRY_ASSIGN(Ticket ticket, admit(tenant.id));
  co_return co_await order(std::move(tenant), std::move(request), std::move(ticket));
}

net::Task<Result<std::optional<NewVersion>>> Builds::same_version(const core::TenantId& tenant,
                                                                  const BuildRequest& request,
                                                                  const std::string& order_key) {
  if (request.no_cache) co_return std::nullopt;
  FB_CO_TRY_ASSIGN(auto same, co_await images_.made_by(tenant, request.name, order_key));
  if (!same) co_return std::nullopt;
  // It may be from an older QEMU, or gone: then it is built again.
  const auto loaded =
      co_await services_.catalogue.load(core::snapshot_of(same->version), Deadline::in(kLoadTime));
  co_return loaded ? std::move(same) : std::nullopt;
}

// -------------------------------------------------------------------------------------------- run

net::Task<void> Builds::run(ActivePtr active) {
  NewVersion& made = active->made;
  auto place = co_await queue_.enter(
      active->tenant.id, [active] { return active->cancelled; }, Deadline::in(kQueueTime));
  const Deadline deadline = Deadline::in(config_.time);
  Result<std::string> snapshot = fail(Code::timeout, "the build waited too long for its turn");
  if (place) {
    made.version.state = VersionState::in_progress;
    made.build.state = BuildState::in_progress;
    (void)co_await services_.db.run([&](store::Store& store) -> Result<> {
      FB_TRY(store.update_version(made.version));
      return store.update_build(made.build);
    });
    auto room = co_await wait_for_room(active, deadline);
    snapshot = room ? co_await build(active, deadline)
                    : Result<std::string>(std::unexpected(room.error()));
    active->room.release();
  }
  if (!snapshot) {
    Error error = snapshot.error();
    if (active->cancelled)
      error = {Code::conflict, closing_ ? "the server was stopped" : "the build was cancelled", {}};
    else if (deadline.passed())
      error = {Code::timeout,
               "the build took longer than " + std::to_string(config_.time.count()) +
                   " seconds: " + error.message,
               {}};
    services_.log.warn("build failed",
                       {{"build", made.build.id.str()}, {"error", snapshot.error().text()}});
    error.message = reason_of(error);
    say(*active, "FAILED: " + error.message);
    snapshot = std::unexpected(std::move(error));
  } else {
    say(*active, "SUCCESSFUL: " + made.image.name + " " + core::version_text(made.version.number));
  }
  if (snapshot) {
    core::ImageVersion taken = made.version;
    taken.snapshot = *snapshot;
    const SnapshotBytes bytes = images_.occupied(taken);
    made.build.disk_bytes = bytes.disk;
    made.build.memory_bytes = bytes.memory;
  }
  (void)co_await images_.finish(made, std::move(snapshot));
  active->finished = true;
  active->changed.notify();
  for (const core::SnapshotRef& held : active->held)
    co_await images_.let_go(held, Deadline::in(std::chrono::seconds(20)));
  if (auto shrunk = co_await shrink_caches(active->tenant.id); !shrunk)
    services_.log.warn("build cache", {{"error", shrunk.error().text()}});
  active_.erase(made.build.id);
  log().changed().notify();
}

net::Task<Result<>> Builds::wait_for_room(ActivePtr active, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(active->request.memory_mib));
  for (bool told = false; !active->cancelled; told = true) {
    auto room = co_await capacity_.admit(active->tenant.id, size, deadline);
    if (room) {
      active->room = *std::move(room);
      co_return Result<>();
    }
    if (room.error().code != Code::unavailable || deadline.passed())
      co_return std::unexpected(room.error());
    if (!told) say(*active, "waiting: " + room.error().message);
    (void)co_await services_.changed.wait(deadline.earlier(Deadline::in(std::chrono::seconds(2))));
  }
  co_return fail(Code::conflict, "the build was cancelled");
}

image::BuildMachineSpec Builds::machine_spec(const ActivePtr& active) {
  const auto size = core::size_for(active->request.memory_mib);
  // As much as it was promised: what a build uses is not looked at.
  const core::HostUse use{.resident_mib = size->memory_mib,
                          .baseline_mib = size->memory_mib,
                          .baseline_millicpu = size->baseline_millicpu};
  return {.size = {.vcpus = size->peak_vcpus, .memory_mib = size->peak_memory_mib},
          .limits = host_limits(*size),
          .network = services_.networks != nullptr && active->egress != core::kNoEgress,
          .hidden = image::credentials_in(config_.run_env),
          .starting =
              [this, active, use](std::string id) {
                if (active->machines.insert(id).second) capacity_.add_build(use);
                active->room.release();
                images_.building().insert(id);
              },
          .started = [this, active](std::string id) -> net::Task<Result<>> {
            if (active->cancelled) co_return fail(Code::conflict, "the build was cancelled");
            co_return co_await egress_.admit_build(active->tenant.id, id, active->egress,
                                                   Deadline::in(std::chrono::seconds(30)));
          },
          .ended = [this, active, use](std::string id) -> net::Task<void> {
            co_await egress_.dismiss_build(id);
            if (active->machines.erase(id) != 0) capacity_.remove_build(use);
            images_.building().erase(id);
          }};
}

net::Task<Result<std::string>> Builds::build(ActivePtr active, Deadline deadline) {
  if (active->cancelled) co_return fail(Code::conflict, "the build was cancelled");
  if (config_.ca) say(*active, image::describe(*config_.ca));
  BuildRequest& request = active->request;
  BuildRequest::Context context = request.context;
  if (!context) {
    say(*active, "getting the build context");
    FB_CO_TRY_ASSIGN(context, co_await request.fetch(deadline));
  }
  PlanOrder order = plan_order(active->tenant.id, request, std::move(context));
  order.registry = {.tools = active->tools,
                    .log = [this, active](const std::string& line) { say(*active, line); }};
  FB_CO_TRY_ASSIGN(PlannedBuild plan, co_await planner_.plan(std::move(order), deadline));
  for (const auto& [name, base] : plan.bases) {
    if (base.snapshot.empty()) continue;
    FB_CO_TRY_ASSIGN(const bool there, co_await hold(active, base.snapshot));
    if (!there) co_return fail(Code::not_found, "the base image " + name + " was removed");
  }
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      services_.clock.now().time_since_epoch());
  FB_CO_TRY_ASSIGN(machine::Engine* const engine,
                   services_.engines.get(active->made.version.engine));
  FB_CO_TRY(machine::require(*engine, machine::Feature::cut_layers));
  image::Builder builder(*engine, cache_, mounts_, pool_, planner_.threads(),
                         {.owner = active->tenant.id.str(),
                          .context = std::move(plan.context),
                          .ignore = std::move(plan.ignore),
                          .plan = std::move(plan.plan),
                          .bases = std::move(plan.bases),
                          .scratch = bases_.scratch_disk(),
                          .secrets = std::move(request.secrets),
                          .run_env = config_.run_env,
                          .ca = config_.ca,
                          .use_cache = !request.no_cache,
                          .cache_mount_bytes = config_.cache_mount_bytes,
                          .mtime_ns = now.count(),
                          .name = "build-" + active->made.build.id.str(),
                          .machine = machine_spec(active),
                          .log = output_of(active)});
  FB_CO_TRY_ASSIGN(const image::BuiltDisk built, co_await builder.run(deadline));
  co_return co_await take_snapshot(active, built, deadline);
}

// What its machines print, on its way into the log.
std::function<void(std::string_view)> Builds::output_of(const ActivePtr& active) {
  const std::shared_ptr<Flow> flow =
      services_.outlet.open({.tenant = active->tenant.id, .microvm = {}, .origin = Origin::build});
  return [this, active, flow](std::string_view text) {
    log().append(active->made.build.id, flow->pass(std::string(text)));
  };
}

net::Task<Result<std::string>> Builds::take_snapshot(ActivePtr active,
                                                     const image::BuiltDisk& built,
                                                     Deadline deadline) {
  const BuildRequest& request = active->request;
  const core::Environment env = environment(request, active->made.version.number, built);
  const std::string key = snapshot_key(active->tenant.id, request, built, env);
  FB_CO_TRY(record(*active, built, key));
  if (!request.no_cache) {
    if (auto same = co_await same_snapshot(active, key, deadline)) {
      say(*active, "the snapshot of an earlier build is the same: taken");
      co_return *same;
    }
  }
  const core::SnapshotRef made = active->made.snapshot();
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(made.engine));
  const std::string machine_id = "build-" + active->made.build.id.str();
  image::SnapshotSpec spec{
      .disk = built.disk,
      .directory = engine->snapshot_directory(made.name),
      .machine_id = machine_id,
      .tenant = tenant_of(request, built.config, env),
      .hooks = request.hooks,
      .port = request.ready_port != 0 ? request.ready_port : image::first_port(built.config),
      .ready_path = request.ready_path,
      .python_context = request.python_context,
      .preload = request.preload,
      .machine = machine_spec(active),
      .log = output_of(active)};
  FB_CO_TRY(co_await image::make_snapshot(*engine, std::move(spec), deadline));
  FB_CO_TRY(co_await validate(active, made, machine_id, deadline));
  co_return made.name;
}

net::Task<Result<>> Builds::validate(ActivePtr active, core::SnapshotRef snapshot,
                                     std::string machine_id, Deadline deadline) {
  const image::BuildMachineSpec machine = machine_spec(active);
  machine.starting(machine_id);  // from here on a cancel finds it
  const auto proceed = [active]() -> Result<> {
    if (active->cancelled) return fail(Code::conflict, "the build was cancelled");
    return {};
  };
  auto valid = co_await images_.validate(std::move(snapshot), active->request.hooks, machine_id,
                                         proceed, deadline);
  co_await machine.ended(machine_id);
  co_return valid;
}

// Kept in the version: what it runs, how it was made, what the façade wants to see again.
Result<> Builds::record(Active& active, const image::BuiltDisk& built,
                        const std::string& key) const {
  core::ImageVersion& version = active.made.version;
  FB_TRY_ASSIGN(json::object config, parse_json_object(version.config));
  const bool app = !image::command_of(built.config).empty();
  FB_TRY_ASSIGN(const json::object flags, parse_json_object(core::app_config(app, true)));
  for (const auto& [name, value] : flags) config[name] = value;
  config["image"] = image::to_json(built.config);
  config["steps"] = to_json(built.steps);
  if (!active.request.preload.empty()) config[kPreload] = core::to_json(active.request.preload);
  config[kSnapshotKey] = key;
  const bool in_image = !built.ca.sha256.empty();
  if (in_image || config_.ca)
    config[kGuestCa] = guest_ca_json(in_image ? built.ca : config_.ca->mark, in_image);
  version.config = json::serialize(config);
  return {};
}

net::Task<Result<bool>> Builds::hold(ActivePtr active, core::SnapshotRef snapshot) {
  FB_CO_TRY_ASSIGN(const bool there, co_await images_.hold(snapshot));
  if (there) active->held.push_back(std::move(snapshot));
  co_return there;
}

net::Task<std::optional<std::string>> Builds::same_snapshot(ActivePtr active, std::string key,
                                                            Deadline deadline) {
  const auto made = co_await services_.db.run(
      [&](const store::Store& store) { return snapshots_made_by(store, active->tenant.id, key); });
  if (!made) co_return std::nullopt;
  for (const core::SnapshotRef& snapshot : *made) {
    if (snapshot.engine != active->made.version.engine) continue;
    const auto held = co_await hold(active, snapshot);
    // It may be from an older QEMU.
    if (held && *held && co_await services_.catalogue.load(snapshot, deadline))
      co_return snapshot.name;
  }
  co_return std::nullopt;
}

// -------------------------------------------------------------------------------------------- end

net::Task<Result<core::Build>> Builds::wait(core::Build build, Deadline deadline) {
  for (;;) {
    if (const auto at = active_.find(build.id); at != active_.end()) {
      const ActivePtr active = at->second;
      while (!active->finished && !deadline.passed()) (void)co_await active->changed.wait(deadline);
    }
    const auto found = co_await services_.db.run([&](const store::Store& store) {
      return store.find_build(build.image, build.version, build.id);
    });
    if (!found) co_return std::unexpected(found.error());
    if (!*found) co_return fail(Code::not_found, "there is no such build any more");
    if ((*found)->finished) co_return **found;
    if (deadline.passed()) co_return fail(Code::timeout, "the build still goes on");
    // Not one of ours, as that of the image `python`: it is asked after.
    net::Event pause(services_.executor);
    (void)co_await pause.wait(deadline.earlier(Deadline::in(std::chrono::seconds(1))));
  }
}

Result<> Builds::cancel(const core::BuildId& build) {
  const auto found = active_.find(build);
  if (found == active_.end()) return fail(Code::conflict, "this build is not under way");
  const ActivePtr& active = found->second;
  FB_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(active->made.version.engine));
  active->cancelled = true;
  queue_.wake();
  active->tools->stop();
  // Whatever waits for the machine sees it vanish.
  for (const std::string& id : active->machines) {
    auto discard = [](machine::Engine& engine, std::string machine) -> net::Task<void> {
      (void)co_await engine.discard(machine, Deadline::in(std::chrono::seconds(20)));
    };
    tasks_.spawn("build_cancel", discard(*engine, id), id);
  }
  return {};
}

net::Task<void> Builds::close(Deadline deadline) {
  closing_ = true;
  while (!active_.empty() && !deadline.passed()) {
    std::vector<core::BuildId> ids;
    for (const auto& [id, active] : active_) ids.push_back(id);
    for (const core::BuildId& id : ids)
      if (!active_.at(id)->cancelled) (void)cancel(id);
    (void)co_await log().changed().wait(deadline);
  }
  (void)co_await tasks_.wait(deadline);
  (void)co_await tasks_.close(Deadline::in(kCutTime));
}

}  // namespace firebreak::control
