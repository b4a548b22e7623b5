#include "control/images.h"

#include "base/json.h"
#include "control/host_limits.h"
#include "control/version_config.h"
#include "image/hook_caller.h"
#include "store/walk.h"

namespace firebreak::control {
namespace {

using core::ImageState;
using core::VersionState;

// For the records of a build. It has taken minutes: a slow disk is waited for.
constexpr auto kRecordTime = std::chrono::minutes(10);

bool unfinished(const core::ImageVersion& version) {
  return version.state == VersionState::pending || version.state == VersionState::in_progress;
}

// Images whose build a crash cut; their older versions can still be run.
Result<> fail_unfinished_images(store::Store& store) {
  FB_TRY_ASSIGN(const auto tenants, store.list_tenants());
  for (const core::Tenant& tenant : tenants) {
    FB_TRY(store::for_each_image(store, tenant.id, [&](core::Image& image) -> Result<> {
      const bool creating = image.state == ImageState::creating;
      if (!creating && image.state != ImageState::updating) return {};
      image.state = creating ? ImageState::create_failed : ImageState::update_failed;
      return store.update_image(image);
    }));
  }
  return {};
}

// A version whose build a crash cut, with its builds, unless it has ended otherwise meanwhile.
Result<> fail_unfinished_version(store::Store& store, const core::ImageVersion& cut,
                                 core::Time now) {
  FB_TRY_ASSIGN(auto version, store.find_version(cut.image, cut.number));
  if (!version || !unfinished(*version)) return {};
  version->state = VersionState::failed;
  version->state_reason = "The server stopped during the build; build it again.";
  version->updated = now;
  FB_TRY(store.update_version(*version));
  FB_TRY_ASSIGN(const auto builds, store.list_builds(cut.image, cut.number));
  for (core::Build build : builds) {
    if (build.finished) continue;
    build.state = core::BuildState::failed;
    build.state_reason = version->state_reason;
    build.finished = version->updated;
    FB_TRY(store.update_build(build));
  }
  return {};
}

// Those of the microVMs that a snapshot of this size is for.
machine::HostLimits limits_of(const machine::Size& size) {
  const auto* found =
      std::ranges::find(core::kSizes, size.memory_mib, &core::SizeClass::peak_memory_mib);
  return found == core::kSizes.end() ? machine::HostLimits{} : host_limits(*found);
}

}  // namespace

net::Task<Result<>> Images::recover() {
  FB_CO_TRY_ASSIGN(const auto versions, co_await services_.db.run([](const store::Store& store) {
    return store.all_versions();
  }));
  FB_CO_TRY(co_await services_.db.run(fail_unfinished_images));
  for (const core::ImageVersion& version : versions) {
    if (!unfinished(version)) continue;
    // Half a snapshot may be there, or a whole one with its memory held.
    core::SnapshotRef half{version.engine,
                           version.image.str() + "-" + std::to_string(version.number)};
    (void)co_await services_.catalogue.remove(std::move(half),
                                              Deadline::in(std::chrono::seconds(20)));
    const core::Time now = services_.clock.now();
    FB_CO_TRY(co_await services_.db.run(
        [&](store::Store& store) { return fail_unfinished_version(store, version, now); }));
  }
  co_return co_await sweep();
}

net::Task<Result<>> Images::sweep() {
  // Looked for before the records are: what a build has made by now has its record by then.
  FB_CO_TRY_ASSIGN(const std::vector<core::SnapshotRef> found, services_.catalogue.found());
  std::set<std::string> snapshots;
  std::set<core::BuildId> builds;
  std::set<WarmPool::Key> known;
  FB_CO_TRY(co_await services_.db.run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto versions, store.all_versions());
    for (const core::ImageVersion& version : versions) {
      known.emplace(version.image, version.number);
      snapshots.insert(version.snapshot);
      snapshots.insert(version.image.str() + "-" + std::to_string(version.number));
      FB_TRY_ASSIGN(const auto made, store.list_builds(version.image, version.number));
      for (const core::Build& build : made) builds.insert(build.id);
    }
    return {};
  }));
  co_await pool_.keep_only(std::move(known));
  for (const core::SnapshotRef& snapshot : found)
    if (!snapshots.contains(snapshot.name))
      co_await forget_snapshot(snapshot, Deadline::in(std::chrono::seconds(20)));
  co_return log_.keep_only(builds);
}

Result<std::vector<core::ImageVersion>> fail_versions_of(store::Store& store,
                                                         const std::string& snapshot,
                                                         core::Time now) {
  FB_TRY_ASSIGN(auto versions, store.versions_with_snapshot(snapshot));
  for (core::ImageVersion& version : versions) {
    version.state = VersionState::failed;
    version.active = false;
    version.state_reason = "Its snapshot is gone from the disk; build it again.";
    version.snapshot.clear();
    version.updated = now;
    FB_TRY(store.update_version(version));
  }
  return versions;
}

net::Task<Result<>> Images::lost(core::SnapshotRef snapshot) {
  FB_CO_TRY_ASSIGN(const auto versions, co_await services_.db.run([&](store::Store& store) {
    return fail_versions_of(store, snapshot.name, services_.clock.now());
  }));
  for (const core::ImageVersion& version : versions) co_await pool_.drop(version);
  co_await forget_snapshot(std::move(snapshot), Deadline::in(std::chrono::seconds(20)));
  co_return Result<>();
}

net::Task<Result<core::Image>> Images::find(core::TenantId tenant, std::string name_or_id) {
  auto found = co_await services_.db.run([&](const store::Store& store) {
    return name_or_id.starts_with("image-") ? store.find_image(tenant, core::ImageId(name_or_id))
                                            : store.find_image_by_name(tenant, name_or_id);
  });
  if (!found) co_return std::unexpected(found.error());
  if (!*found)
    co_return fail(Code::not_found, Reason{"image_not_found"}, "there is no image " + name_or_id);
  co_return **found;
}

net::Task<Result<core::ImageVersion>> Images::set_active(core::ImageId image, std::uint32_t number,
                                                         bool active) {
  const core::Time now = services_.clock.now();
  FB_CO_TRY_ASSIGN(
      const core::ImageVersion changed,
      co_await services_.db.run([&](store::Store& store) -> Result<core::ImageVersion> {
        FB_TRY_ASSIGN(auto version, store.find_version(image, number));
        if (!version)
          return fail(Code::not_found, "there is no version " + core::version_text(number) +
                                           " of the image any more");
        if (active && version->state != core::VersionState::successful)
          return fail(Code::conflict, "version " + core::version_text(number) + " is " +
                                          std::string(to_string(version->state)) +
                                          "; it cannot be active");
        version->active = active;
        version->updated = now;
        FB_TRY(store.update_version(*version));
        return *std::move(version);
      }));
  if (!active) co_await pool_.drop(changed);
  co_return changed;
}

net::Task<Result<std::vector<core::ImageVersion>>> Images::versions(const core::Image& image) {
  const core::ImageId id = image.id;
  co_return co_await services_.db.run(
      [&id](const store::Store& store) { return store.list_versions(id); });
}

SnapshotBytes Images::occupied(const core::ImageVersion& version) const {
  return services_.catalogue.bytes(core::snapshot_of(version));
}

SnapshotBytes Images::occupied(const std::vector<core::ImageVersion>& versions) const {
  SnapshotBytes sum;
  std::set<std::string> seen;
  for (const core::ImageVersion& version : versions) {
    if (!seen.insert(version.snapshot).second) continue;
    const SnapshotBytes one = occupied(version);
    sum.disk += one.disk;
    sum.memory += one.memory;
  }
  return sum;
}

namespace {

// For one more version, by removing the oldest that nobody uses if that is wanted.
Result<> make_room(store::Store& store, const core::Image& image, std::size_t allowed,
                   std::size_t used, bool prune, Removed& removed) {
  if (used < allowed) return {};
  std::string repair = "remove versions with `firebreak image rm " + image.name +
                       ":VERSION` or `firebreak image prune " + image.name + "`";
  if (prune) {
    FB_TRY_ASSIGN(auto unused, unused_versions(store, image));
    const std::size_t needed = used + 1 - allowed;
    if (unused.size() >= needed) {
      unused.resize(needed);
      FB_TRY_ASSIGN(removed, remove_versions(store, unused));
      return {};
    }
    repair = "microVMs use its versions, terminate some of them";
  }
  return std::unexpected(core::limit_reached("versions_per_image", allowed, used,
                                             "limit versions_per_image reached: image " +
                                                 image.name + " has " + std::to_string(used) +
                                                 " of " + std::to_string(allowed) + " versions",
                                             Repair{repair}));
}

// In one transaction: nobody else writes between the looks and the writes.
Result<NewVersion> begin_in(store::Store& store, const core::TenantId& tenant,
                            const core::TenantLimits& limits, const std::string& name,
                            const core::Tags& tags, core::ImageVersion version, bool prune,
                            Removed& removed) {
  NewVersion made;
  FB_TRY_ASSIGN(const auto existing, store.find_image_by_name(tenant, name));
  made.first = !existing || existing->tenant != tenant;
  if (made.first) {
    FB_TRY_ASSIGN(const core::TenantUse use, store.tenant_use(tenant));
    if (use.images >= limits.images)
      return std::unexpected(core::LimitRefusal{"images", limits.images, use.images, {}}.error());
    made.image = {.id = core::new_image_id(),
                  .tenant = tenant,
                  .name = name,
                  .tags = tags,
                  .created = version.created};
    FB_TRY(store.create_image(made.image));
  } else {
    made.image = *existing;
    if (made.image.state == ImageState::creating || made.image.state == ImageState::updating)
      return fail(Code::conflict, Reason{"being_built"},
                  image_cannot("built: a build of it is under way", made.image));
    FB_TRY_ASSIGN(const auto known, store.list_versions(made.image.id));
    FB_TRY(make_room(store, made.image, limits.versions_per_image, known.size(), prune, removed));
    for (const core::ImageVersion& other : known)
      version.number = std::max(version.number, other.number + 1);
    made.image.state = ImageState::updating;
    made.image.updated = version.created;
    FB_TRY(store.update_image(made.image));
  }
  version.image = made.image.id;
  made.version = std::move(version);
  FB_TRY(store.create_version(made.version));
  made.build = {.id = core::BuildId(core::new_uuid()),
                .image = made.image.id,
                .version = made.version.number,
                .created = made.version.created};
  FB_TRY(store.create_build(made.build));
  return made;
}

}  // namespace

net::Task<Result<NewVersion>> Images::begin(core::TenantId tenant, core::TenantLimits limits,
                                            std::string name, core::Tags tags,
                                            core::ImageVersion version, bool prune) {
  FB_CO_TRY(core::check_image_name(name));
  FB_CO_TRY(core::check(version.hooks));
  FB_CO_TRY(core::size_for(version.memory_mib));
  version.created = services_.clock.now();
  const machine::Engine& engine = services_.engines.standard();
  version.engine = engine.name();
  version.isolation = engine.isolation();
  const Deadline deadline = Deadline::in(kRecordTime);
  Removed removed;
  FB_CO_TRY_ASSIGN(auto records, co_await services_.db.begin(deadline));
  FB_CO_TRY_ASSIGN(NewVersion made, co_await records.run([&](store::Store& store) {
    return begin_in(store, tenant, limits, name, tags, version, prune, removed);
  }));
  FB_CO_TRY(co_await records.commit(deadline));
  made.removed = removed.versions;
  co_await forget(std::move(removed), Deadline::in(std::chrono::seconds(60)));
  co_return made;
}

net::Task<Result<std::optional<NewVersion>>> Images::made_by(core::TenantId tenant,
                                                             std::string name,
                                                             std::string order_key) {
  co_return co_await services_.db.run(
      [&](const store::Store& store) -> Result<std::optional<NewVersion>> {
        FB_TRY_ASSIGN(const auto image, store.find_image_by_name(tenant, name));
        if (!image || image->tenant != tenant) return std::nullopt;
        if (image->state == ImageState::creating || image->state == ImageState::updating)
          return std::nullopt;
        FB_TRY_ASSIGN(const auto newest, store.latest_runnable(image->id));
        if (!newest || order_key_of(*newest) != order_key) return std::nullopt;
        // Another engine makes another snapshot of the same.
        if (newest->engine != services_.engines.standard().name()) return std::nullopt;
        FB_TRY_ASSIGN(const auto builds, store.list_builds(image->id, newest->number));
        if (builds.empty()) return std::nullopt;
        return NewVersion{
            .image = *image, .version = *newest, .build = builds.back(), .unchanged = true};
      });
}

net::Task<Result<>> Images::validate(core::SnapshotRef snapshot, core::Hooks hooks,
                                     std::string machine_id, std::function<Result<>()> proceed,
                                     Deadline deadline) {
  if (!hooks[core::Hook::validate].enabled) co_return Result<>();
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(snapshot.engine));
  FB_CO_TRY_ASSIGN(auto loaded, co_await services_.catalogue.load(std::move(snapshot), deadline));
  building_.insert(machine_id);
  auto body = [&]() -> net::Task<Result<>> {
    const machine::LaunchSpec spec{.id = machine_id, .limits = limits_of(loaded->size())};
    FB_CO_TRY_ASSIGN(auto clone, co_await engine->restore(std::move(loaded), spec, deadline));
    Result<> valid = proceed();
    if (valid) valid = co_await clone->wake(machine::fresh_identity(machine_id, 1), deadline);
    if (valid) {
      // One that was discarded, because its build was cancelled, does not answer any more.
      auto answers = [&]() -> net::Task<bool> {
        co_return (co_await clone->agent().health(deadline)).has_value();
      };
      auto failure =
          co_await image::poll_hook(clone->agent(), hooks, core::Hook::validate, answers);
      if (failure) valid = fail(Code::guest, failure->reason);
    }
    auto ended = co_await clone->terminate(Deadline::in(std::chrono::seconds(20)));
    co_return valid ? ended : valid;
  };
  auto result = co_await body();
  building_.erase(machine_id);
  co_return result;
}

namespace {

// Of the image, only what the build decides: its tags may have been changed meanwhile.
Result<> finish_in(store::Store& store, NewVersion& made) {
  FB_TRY_ASSIGN(auto image, store.find_image(made.image.tenant, made.image.id));
  if (!image) return fail(Code::not_found, "image " + made.image.name + " was removed");
  image->state = made.image.state;
  image->updated = made.image.updated;
  FB_TRY(store.update_version(made.version));
  FB_TRY(store.update_build(made.build));
  FB_TRY(store.update_image(*image));
  made.image = *std::move(image);
  return {};
}

}  // namespace

net::Task<Result<>> Images::finish(NewVersion& made, Result<std::string> snapshot) {
  core::ImageVersion& version = made.version;
  const core::Time now = services_.clock.now();
  version.state = snapshot ? VersionState::successful : VersionState::failed;
  version.active = snapshot.has_value();
  // A hook's answer, or what an instruction printed last, may be part of it.
  version.state_reason =
      snapshot ? ""
               : services_.outlet.pass_whole(
                     {.tenant = made.image.tenant, .microvm = {}, .origin = Origin::reason},
                     snapshot.error().message);
  version.snapshot = snapshot.value_or("");
  version.updated = made.image.updated = now;
  if (made.first)
    made.image.state = snapshot ? ImageState::created : ImageState::create_failed;
  else
    made.image.state = snapshot ? ImageState::updated : ImageState::update_failed;
  made.build.state = snapshot ? core::BuildState::successful : core::BuildState::failed;
  made.build.state_reason = version.state_reason;
  made.build.finished = now;
  if (!snapshot) {
    (void)co_await services_.catalogue.remove(made.snapshot(),
                                              Deadline::in(std::chrono::seconds(20)));
  }
  const Deadline deadline = Deadline::in(kRecordTime);
  FB_CO_TRY_ASSIGN(auto records, co_await services_.db.begin(deadline));
  FB_CO_TRY(co_await records.run([&](store::Store& store) { return finish_in(store, made); }));
  FB_CO_TRY(co_await records.commit(deadline));
  services_.log.info("image built", {{"image", made.image.name},
                                     {"version", core::version_text(version.number)},
                                     {"state", to_string(version.state)},
                                     {"reason", version.state_reason}});
  services_.changed.notify();
  if (snapshot) {
    FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(version.memory_mib));
    pool_.keep(version, size, made.image.tenant == core::kSystemTenant);
  }
  co_return Result<>();
}

net::Task<Result<core::ImageVersion>> Images::build_from_base(
    core::TenantId tenant, core::TenantLimits limits, BaseImageRequest request,
    std::function<void(std::string_view)> progress, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(request.memory_mib));
  FB_CO_TRY_ASSIGN(json::object config, parse_json_object(core::app_config(request.app.has_value(),
                                                                           request.app_is_pid1)));
  if (!request.preload.empty()) config[kPreload] = core::to_json(request.preload);
  std::map<std::string, std::string> env = request.env;
  if (!ca_.sha256.empty()) {
    config[kGuestCa] = guest_ca_json(ca_, true);
    env.merge(image::ca_environment());
  }
  core::ImageVersion draft{.state = VersionState::in_progress,
                           .memory_mib = request.memory_mib,
                           .hooks = request.hooks,
                           .env = request.env,
                           .config = json::serialize(config)};
  FB_CO_TRY_ASSIGN(NewVersion made,
                   co_await begin(tenant, limits, request.name, request.tags, std::move(draft)));
  const core::SnapshotRef snapshot = made.snapshot();
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(snapshot.engine));
  const std::string machine_id = "build-" + made.build.id.str();
  image::SnapshotSpec spec{
      .disk = {.base = base_disk_, .layers = {}, .id = "base"},
      .directory = engine->snapshot_directory(snapshot.name),
      .machine_id = machine_id,
      .tenant = {.app_is_pid1 = request.app && request.app_is_pid1,
                 .app = request.app,
                 .env = std::move(env)},
      .hooks = request.hooks,
      .python_context = request.python_context,
      .preload = request.preload,
      .machine = {.size = {.vcpus = size.peak_vcpus, .memory_mib = size.peak_memory_mib},
                  .limits = host_limits(size),
                  .starting = [this](std::string id) { building_.insert(id); },
                  .started = [](std::string) -> net::Task<Result<>> { co_return Result<>(); },
                  .ended = [this](std::string id) -> net::Task<void> {
                    building_.erase(id);
                    co_return;
                  }},
      .log = [progress](std::string_view text) {
        if (progress) progress(text.substr(0, text.find('\n')));
      }};
  auto built = co_await image::make_snapshot(*engine, std::move(spec), deadline);
  if (built)
    built =
        co_await validate(snapshot, request.hooks, machine_id, [] { return Result<>(); }, deadline);
  FB_CO_TRY(co_await finish(
      made, built ? Result<std::string>(snapshot.name) : std::unexpected(built.error())));
  if (!built) co_return fail(built.error(), "building image " + made.image.name);
  co_return made.version;
}

}  // namespace firebreak::control
