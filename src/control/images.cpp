#include "control/images.h"

#include "base/sys.h"
#include "image/hook_caller.h"

namespace firebreak::control {
namespace {

using core::ImageState;
using core::VersionState;

// Images whose build a crash cut; their older versions can still be run.
Result<> fail_unfinished_images(store::Store& store) {
  FB_TRY_ASSIGN(const auto tenants, store.list_tenants());
  for (const core::Tenant& tenant : tenants) {
    store::PageRequest page{.size = 1000, .token = {}};
    do {
      FB_TRY_ASSIGN(auto found, store.list_images(tenant.id, "", page));
      for (core::Image& image : found.items) {
        const bool creating = image.state == ImageState::creating;
        if (image.tenant != tenant.id || (!creating && image.state != ImageState::updating))
          continue;
        image.state = creating ? ImageState::create_failed : ImageState::update_failed;
        FB_TRY(store.update_image(image));
      }
      page.token = found.next;
    } while (!page.token.empty());
  }
  return {};
}

std::string cannot(std::string_view what, const core::Image& image) {
  return "image " + image.name + " cannot be " + std::string(what);
}

}  // namespace

net::Task<Result<>> Images::recover() {
  FB_CO_TRY_ASSIGN(const auto versions, co_await services_.db.run([](store::Store& store) {
    return store.all_versions();
  }));
  FB_CO_TRY(co_await services_.db.run(fail_unfinished_images));
  for (core::ImageVersion version : versions) {
    if (version.state != VersionState::pending && version.state != VersionState::in_progress)
      continue;
    version.state = VersionState::failed;
    version.state_reason = "The server stopped during the build; build it again.";
    // Half a snapshot may be there.
    (void)sys::remove_tree(
        services_.catalogue.directory(version.image.str() + "-" + std::to_string(version.number)));
    version.updated = services_.clock.now();
    FB_CO_TRY(co_await services_.db.run(
        [&version](store::Store& store) { return store.update_version(version); }));
  }
  co_return Result<>();
}

net::Task<Result<core::Image>> Images::find(core::TenantId tenant, std::string name_or_id) {
  auto found = co_await services_.db.run([&](store::Store& store) {
    return name_or_id.starts_with("image-") ? store.find_image(tenant, core::ImageId(name_or_id))
                                            : store.find_image_by_name(tenant, name_or_id);
  });
  if (!found) co_return std::unexpected(found.error());
  if (!*found) co_return fail(Code::not_found, "there is no image " + name_or_id);
  co_return **found;
}

net::Task<Result<std::vector<core::ImageVersion>>> Images::versions(const core::Image& image) {
  const core::ImageId id = image.id;
  co_return co_await services_.db.run(
      [&id](store::Store& store) { return store.list_versions(id); });
}

// The records of a build, before it begins: an image if there is none, and a version.
net::Task<Result<>> Images::write(core::Image& image, core::ImageVersion& version, bool is_new) {
  co_return co_await services_.db.run([&](store::Store& store) -> Result<> {
    if (is_new) FB_TRY(store.create_image(image));
    FB_TRY_ASSIGN(const auto known, store.list_versions(image.id));
    for (const core::ImageVersion& other : known)
      version.number = std::max(version.number, other.number + 1);
    return store.create_version(version);
  });
}

// A first clone that nobody keeps must say that it is fit.
net::Task<Result<>> Images::validate(std::shared_ptr<machine::Snapshot> snapshot, core::Hooks hooks,
                                     std::string machine_id, Deadline deadline) {
  if (!hooks[core::Hook::validate].enabled) co_return Result<>();
  building_.insert(machine_id);
  auto body = [&]() -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(auto clone,
                     co_await services_.engine.restore(std::move(snapshot),
                                                       {.id = machine_id, .limits = {}}, deadline));
    Result<> valid = co_await clone->wake(machine::fresh_identity(machine_id, 1), deadline);
    if (valid) {
      auto failure = co_await image::poll_hook(clone->agent(), hooks, core::Hook::validate);
      if (failure) valid = fail(Code::guest, failure->reason);
    }
    auto ended = co_await clone->terminate(Deadline::in(std::chrono::seconds(20)));
    co_return valid ? ended : valid;
  };
  auto result = co_await body();
  building_.erase(machine_id);
  co_return result;
}

net::Task<Result<core::ImageVersion>> Images::build_from_base(
    core::TenantId tenant, core::TenantLimits limits, BaseImageRequest request,
    std::function<void(std::string_view)> progress, Deadline deadline) {
  FB_CO_TRY(core::check_image_name(request.name));
  FB_CO_TRY(core::check(request.hooks));
  FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(request.memory_mib));
  auto existing = co_await services_.db.run(
      [&](store::Store& store) { return store.find_image_by_name(tenant, request.name); });
  if (!existing) co_return std::unexpected(existing.error());
  const bool is_new = !*existing || (*existing)->tenant != tenant;
  core::Image image;
  if (is_new) {
    FB_CO_TRY_ASSIGN(const core::TenantUse use, co_await services_.db.run([&](store::Store& store) {
      return store.tenant_use(tenant);
    }));
    if (use.images >= limits.images) {
      co_return fail(Code::exhausted,
                     core::LimitRefusal{"images", limits.images, use.images, {}}.message());
    }
    image = {.id = core::new_image_id(),
             .tenant = tenant,
             .name = request.name,
             .tags = request.tags,
             .created = services_.clock.now()};
  } else {
    image = **existing;
    if (image.state == ImageState::creating || image.state == ImageState::updating)
      co_return fail(Code::conflict, cannot("built: a build of it is under way", image));
    FB_CO_TRY_ASSIGN(const auto known, co_await versions(image));
    if (known.size() >= limits.versions_per_image) {
      co_return fail(
          Code::exhausted,
          core::LimitRefusal{"versions_per_image", limits.versions_per_image, known.size(), {}}
              .message());
    }
    image.state = ImageState::updating;
  }
  core::ImageVersion version{
      .image = image.id,
      .state = VersionState::in_progress,
      .memory_mib = request.memory_mib,
      .hooks = request.hooks,
      .env = request.env,
      .config = core::app_config(request.app.has_value(), request.app_is_pid1),
      .created = services_.clock.now()};
  FB_CO_TRY(co_await write(image, version, is_new));
  if (!is_new) {
    FB_CO_TRY(co_await services_.db.run(
        [&image](store::Store& store) { return store.update_image(image); }));
  }
  const std::string name = image.id.str() + "-" + std::to_string(version.number);
  image::BaseImageSpec spec{.base_disk = base_disk_,
                            .directory = services_.catalogue.directory(name),
                            .machine_id = "build-" + core::new_uuid(),
                            .size = size,
                            .tenant = {.app_is_pid1 = request.app && request.app_is_pid1,
                                       .app = request.app,
                                       .env = request.env},
                            .hooks = request.hooks,
                            .python_context = request.python_context,
                            .progress = std::move(progress)};
  const std::string machine_id = spec.machine_id;
  building_.insert(machine_id);
  auto built = co_await image::build_base_image(services_.engine, std::move(spec), deadline);
  building_.erase(machine_id);
  if (built) {
    auto loaded = co_await services_.catalogue.load(name, deadline);
    built = loaded ? co_await validate(*loaded, request.hooks, machine_id, deadline)
                   : std::unexpected(loaded.error());
  }
  const core::Time now = services_.clock.now();
  version.state = built ? VersionState::successful : VersionState::failed;
  version.active = built.has_value();
  version.state_reason = built ? "" : built.error().message;
  version.snapshot = built ? name : "";
  version.updated = image.updated = now;
  if (!built) (void)sys::remove_tree(services_.catalogue.directory(name));
  image.state = built ? (is_new ? ImageState::created : ImageState::updated)
                      : (is_new ? ImageState::create_failed : ImageState::update_failed);
  FB_CO_TRY(co_await services_.db.run([&](store::Store& store) -> Result<> {
    FB_TRY(store.update_version(version));
    return store.update_image(image);
  }));
  services_.log.info("image built", {{"image", image.name},
                                     {"version", core::version_text(version.number)},
                                     {"state", to_string(version.state)},
                                     {"reason", version.state_reason}});
  if (!built) co_return fail(built.error(), "building image " + image.name);
  pool_.keep(version, size, tenant == core::kSystemTenant);
  co_return version;
}

net::Task<Result<>> Images::remove(core::TenantId tenant, std::string name_or_id,
                                   Deadline deadline) {
  FB_CO_TRY_ASSIGN(const core::Image image, co_await find(tenant, std::move(name_or_id)));
  if (image.tenant != tenant)
    co_return fail(Code::denied, cannot("removed: it is the system's", image));
  if (image.state == ImageState::creating || image.state == ImageState::updating)
    co_return fail(Code::conflict, cannot("removed while it is being built", image));
  FB_CO_TRY_ASSIGN(const auto live, co_await services_.db.run(
                                        [](store::Store& store) { return store.live_microvms(); }));
  for (const core::Microvm& microvm : live) {
    if (microvm.image == image.id)
      co_return fail(Code::conflict,
                     cannot("removed: microVMs of it live; terminate them first", image));
  }
  FB_CO_TRY_ASSIGN(const auto all, co_await versions(image));
  for (const core::ImageVersion& version : all) co_await pool_.drop(version);
  FB_CO_TRY(co_await services_.db.run(
      [&image](store::Store& store) { return store.remove_image(image.id); }));
  for (const core::ImageVersion& version : all) co_await forget_snapshot(version, deadline);
  co_return Result<>();
}

net::Task<void> Images::forget_snapshot(const core::ImageVersion& version, Deadline deadline) {
  if (version.snapshot.empty()) co_return;
  co_await services_.catalogue.release(version.snapshot);
  (void)co_await services_.engine.remove_snapshot(services_.catalogue.directory(version.snapshot),
                                                  deadline);
}

net::Task<Result<>> Images::remove_version(core::Image image, core::ImageVersion version,
                                           Deadline deadline) {
  FB_CO_TRY(co_await services_.db.run([&](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto all, store.list_versions(image.id));
    if (all.size() < 2)
      return fail(Code::conflict, "the last version of image " + image.name +
                                      " cannot be removed; remove the image");
    FB_TRY_ASSIGN(const auto live, store.live_microvms());
    for (const core::Microvm& microvm : live) {
      if (microvm.image == image.id && microvm.image_version == version.number)
        return fail(Code::conflict, "version " + core::version_text(version.number) + " of image " +
                                        image.name +
                                        " cannot be removed: microVMs of it live; terminate them "
                                        "first");
    }
    return store.remove_version(image.id, version.number);
  }));
  co_await pool_.drop(version);
  co_await forget_snapshot(version, deadline);
  co_return Result<>();
}

}  // namespace firebreak::control
