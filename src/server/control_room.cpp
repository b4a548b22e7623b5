#include "server/control_room.h"

#include "control/version_config.h"
#include "machine/scratch_engine.h"

namespace firebreak::server {
namespace {

constexpr const char* kPythonImage = "python";
constexpr std::uint32_t kPythonMemoryMib = 512;
constexpr auto kBeginTime = std::chrono::seconds(30);
constexpr auto kLoadTime = std::chrono::seconds(60);
constexpr auto kBuildTime = std::chrono::minutes(10);

}  // namespace

ControlRoom::ControlRoom(const ServerConfig& config, const Surroundings& surroundings,
                         Storage& storage, Hosting& hosting)
    : storage_(storage),
      hosting_(hosting),
      pool_(surroundings.pool),
      log_(surroundings.log),
      clock_(surroundings.clock),
      data_dir_(config.data_dir),
      limits_gate_([this](const core::TenantId& id) { return limits_of(id); }, clock_,
                   surroundings.metrics),
      gate_(
          limits_gate_, [this](const core::TenantId& id) { return limits_of(id); }, storage.db(),
          clock_),
      counting_outlet_(surroundings.metrics),
      outlet_(counting_outlet_, storage.secrets(), surroundings.metrics),
      catalogue_(hosting.engines(), surroundings.io.get_executor(), clock_),
      services_{.engines = hosting.engines(),
                .db = storage.db(),
                .catalogue = catalogue_,
                .clock = clock_,
                .pauses = surroundings.pauses,
                .log = log_,
                .metrics = surroundings.metrics,
                .gate = gate_,
                .outlet = outlet_,
                .traffic = control::Traffic(surroundings.metrics),
                .executor = surroundings.io.get_executor(),
                .pool = pool_,
                .options = options_of(config),
                .steps = surroundings.steps,
                .app_log = control::AppLog(surroundings.io.get_executor(), data_dir_ + "/logs"),
                .data_dir = data_dir_,
                .networks = hosting.networks(),
                .keys = &storage.keys(),
                .changed = net::Broadcast(surroundings.io.get_executor())},
      supervisor_(std::make_unique<control::Supervisor>(services_)),
      python_changed_(surroundings.io.get_executor()) {}

Result<std::unique_ptr<ControlRoom>> ControlRoom::open(const ServerConfig& config,
                                                       const Surroundings& surroundings,
                                                       Storage& storage, Hosting& hosting) {
  std::unique_ptr<ControlRoom> room(new ControlRoom(config, surroundings, storage, hosting));
  FB_TRY_ASSIGN(auto policies, read_policies(config.egress_policies));
  room->supervisor_->egress().set_common(std::move(policies));
  FB_TRY_ASSIGN(const auto roles, read_roles(config.roles));
  room->supervisor_->roles().set_common(roles);
  FB_TRY(room->open_images(config));
  return room;
}

Result<> ControlRoom::open_images(const ServerConfig& config) {
  const machine::HostPaths paths{
      .data_dir = config.data_dir, .guest_dir = config.guest_dir, .holder = config.holder};
  FB_TRY_ASSIGN(const BaseDisks disks, base_disks_of(config, paths));
  if (auto kept = hosting_.keep_bases(disks.directory); !kept)
    log_.warn("a base is not kept", {{"error", kept.error().text()}});
  images_ = std::make_unique<control::Images>(services_, supervisor_->pool(), disks.python,
                                              disks.ca_mark(), data_dir_ + "/builds");
  FB_TRY(say_what_builds_get(config, disks));
  return open_builds(config, disks);
}

Result<> ControlRoom::say_what_builds_get(const ServerConfig& config, const BaseDisks& disks) {
  if (disks.ca)
    log_.info("certificates", {{"note", image::describe(*disks.ca)}});
  else if (config.guest_ca == "host")
    log_.warn("certificates", {{"note", std::string("this host has no ") + image::kCaBundle +
                                            ": guests trust what their images bring"}});
  FB_TRY_ASSIGN(const control::BuildEnv env, build_env_of(config));
  for (const auto& [name, value] : env.variables)
    log_.info("variable for builds", {{"name", name}});
  for (const std::string& name : env.unset)
    log_.warn("variable for builds",
              {{"name", name}, {"note", "it is not set for this server: left out"}});
  return {};
}

Result<> ControlRoom::open_builds(const ServerConfig& config, const BaseDisks& disks) {
  FB_TRY_ASSIGN(layers_, image::LayerCache::open(data_dir_ + "/layers"));
  FB_TRY_ASSIGN(cache_mounts_, image::CacheMounts::open(data_dir_ + "/cache-mounts"));
  FB_TRY_ASSIGN(control::BuildsConfig builds, builds_of(config, disks));
  builds_ = std::make_unique<control::Builds>(services_, *images_, supervisor_->egress(),
                                              supervisor_->capacity(), *layers_, *cache_mounts_,
                                              pool_, std::move(builds));
  return {};
}

const core::TenantLimits* ControlRoom::limits_of(const core::TenantId& id) const {
  const core::Tenant* tenant = storage_.keys().tenant(id);
  return tenant == nullptr ? nullptr : &tenant->limits;
}

net::Task<Result<>> ControlRoom::start() {
  FB_CO_TRY(co_await images_->recover());
  FB_CO_TRY(co_await builds_->prune());
  co_return co_await supervisor_->start();
}

net::Task<void> ControlRoom::stop(Deadline deadline) {
  co_await builds_->close(deadline);
  co_await supervisor_->stop(deadline);
}

net::Task<Result<control::CheckReport>> ControlRoom::check(bool repair) {
  control::RunningServer server{
      .machines =
          [this] {
            auto ids = supervisor_->pool().ids();
            const auto& building = images_->building();
            ids.insert(building.begin(), building.end());
            return ids;
          },
      .settle = [this](std::string id) { return supervisor_->settle(core::MicrovmId(id)); },
      .lost = [this](core::SnapshotRef snapshot) -> net::Task<bool> {
        co_return (co_await images_->lost(std::move(snapshot))).has_value();
      }};
  control::CheckContext context =
      control::host_context(storage_.db(), hosting_.engines(), data_dir_, std::move(server));
  return control::check_host(std::move(context), repair);
}

// ------------------------------------------------------------------------------------ image python

net::Task<void> ControlRoom::begin_python_image(net::TaskGroup& tasks) {
  tasks.spawn("python_image", make_python_image());
  const Deadline begun = Deadline::in(kBeginTime);
  while (!python_begun_ && !begun.passed()) (void)co_await python_changed_.wait(begun);
}

// It is there, this host can load it (another QEMU could not), and it trusts what guests should.
net::Task<bool> ControlRoom::has_python_image() {
  auto known = co_await images_->find(core::kSystemTenant, kPythonImage);
  if (!known) co_return false;
  const core::ImageId id = known->id;
  auto version = co_await storage_.db().run(
      [&id](const store::Store& store) { return store.latest_runnable(id); });
  if (!version || !*version || control::guest_ca_in(**version) != images_->ca()) co_return false;
  co_return (co_await catalogue_.load(core::snapshot_of(**version), Deadline::in(kLoadTime)))
      .has_value();
}

net::Task<void> ControlRoom::make_python_image() {
  const auto begun = [this] {
    python_begun_ = true;
    python_changed_.notify();
  };
  if (co_await has_python_image()) {
    begun();
    co_return;
  }
  control::BaseImageRequest request{.name = kPythonImage,
                                    .memory_mib = kPythonMemoryMib,
                                    .app_is_pid1 = false,
                                    .python_context = true};
  auto progress = [this, begun](std::string_view step) {
    begun();
    log_.info("image", {{"name", kPythonImage}, {"step", step}});
  };
  auto built = co_await images_->build_from_base(core::kSystemTenant, {}, std::move(request),
                                                 progress, Deadline::in(kBuildTime));
  begun();
  if (!built) log_.error("image", {{"name", kPythonImage}, {"error", built.error().text()}});
}

}  // namespace firebreak::server
