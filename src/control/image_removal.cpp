#include "control/image_removal.h"

#include <algorithm>
#include <set>

#include "control/images.h"

namespace firebreak::control {

using core::ImageState;

std::string image_cannot(std::string_view what, const core::Image& image) {
  return "image " + image.name + " cannot be " + std::string(what);
}

namespace {

Result<> note_removed(const store::Store& store, const core::ImageVersion& version,
                      Removed& removed) {
  FB_TRY_ASSIGN(const auto builds, store.list_builds(version.image, version.number));
  for (const core::Build& build : builds) removed.builds.push_back(build.id);
  removed.versions.push_back(version);
  return {};
}

Result<Removed> remove_in(store::Store& store, const core::TenantId& tenant,
                          const core::ImageId& id) {
  FB_TRY_ASSIGN(const auto image, store.find_image(tenant, id));
  if (!image)
    return fail(Code::not_found, Reason{"image_not_found"}, "there is no image " + id.str());
  if (image->state == ImageState::creating || image->state == ImageState::updating)
    return fail(Code::conflict, Reason{"being_built"},
                image_cannot("removed while it is being built", *image));
  FB_TRY_ASSIGN(const auto live, store.live_microvms());
  for (const core::Microvm& microvm : live) {
    if (microvm.image == id)
      return fail(Code::conflict, Reason{"in_use"},
                  image_cannot("removed: microVMs of it live", *image),
                  Repair{"terminate them first"});
  }
  Removed removed;
  FB_TRY_ASSIGN(const auto versions, store.list_versions(id));
  for (const core::ImageVersion& version : versions) FB_TRY(note_removed(store, version, removed));
  FB_TRY(store.remove_image(id));
  return removed;
}

Result<Removed> remove_version_in(store::Store& store, const core::Image& image,
                                  const core::ImageVersion& version) {
  FB_TRY_ASSIGN(const auto all, store.list_versions(image.id));
  if (all.size() < 2)
    return fail(Code::conflict, "the last version of image " + image.name + " cannot be removed",
                Repair{"remove the image"});
  FB_TRY_ASSIGN(const auto live, store.live_microvms());
  for (const core::Microvm& microvm : live) {
    if (microvm.image == image.id && microvm.image_version == version.number)
      return fail(Code::conflict, Reason{"in_use"},
                  "version " + core::version_text(version.number) + " of image " + image.name +
                      " cannot be removed: microVMs of it live",
                  Repair{"terminate them first"});
  }
  Removed removed;
  FB_TRY(note_removed(store, version, removed));
  FB_TRY(store.remove_version(image.id, version.number));
  return removed;
}

}  // namespace

Result<std::vector<core::ImageVersion>> unused_versions(const store::Store& store,
                                                        const core::Image& image) {
  FB_TRY_ASSIGN(const auto newest, store.latest_runnable(image.id));
  FB_TRY_ASSIGN(const auto live, store.live_microvms());
  std::set<std::uint32_t> used;
  if (newest) used.insert(newest->number);
  for (const core::Microvm& microvm : live)
    if (microvm.image == image.id) used.insert(microvm.image_version);
  FB_TRY_ASSIGN(auto versions, store.list_versions(image.id));
  std::ranges::sort(versions, {}, &core::ImageVersion::number);
  const std::size_t all = versions.size();
  std::erase_if(versions, [&used](const core::ImageVersion& version) {
    return version.state == core::VersionState::pending ||
           version.state == core::VersionState::in_progress || used.contains(version.number);
  });
  // An image has at least one.
  if (!versions.empty() && versions.size() == all) versions.pop_back();
  return versions;
}

Result<Removed> remove_versions(store::Store& store,
                                const std::vector<core::ImageVersion>& versions) {
  Removed removed;
  for (const core::ImageVersion& version : versions) {
    FB_TRY(note_removed(store, version, removed));
    FB_TRY(store.remove_version(version.image, version.number));
  }
  return removed;
}

net::Task<void> Images::forget(Removed removed, Deadline deadline) {
  for (const core::BuildId& build : removed.builds) log_.remove(build);
  for (const core::ImageVersion& version : removed.versions) co_await pool_.drop(version);
  for (const core::ImageVersion& version : removed.versions)
    co_await forget_snapshot(core::snapshot_of(version), deadline);
}

net::Task<Result<std::vector<core::ImageVersion>>> Images::prune(core::TenantId tenant,
                                                                 std::string name_or_id,
                                                                 Deadline deadline) {
  FB_CO_TRY_ASSIGN(const core::Image image, co_await find(tenant, std::move(name_or_id)));
  if (image.tenant != tenant)
    co_return fail(Code::denied, image_cannot("pruned: it is the system's", image));
  FB_CO_TRY_ASSIGN(Removed removed,
                   co_await services_.db.run([&](store::Store& store) -> Result<Removed> {
                     FB_TRY_ASSIGN(const auto unused, unused_versions(store, image));
                     return remove_versions(store, unused);
                   }));
  std::vector<core::ImageVersion> versions = removed.versions;
  co_await forget(std::move(removed), deadline);
  co_return versions;
}

net::Task<Result<>> Images::remove(core::TenantId tenant, std::string name_or_id,
                                   Deadline deadline) {
  FB_CO_TRY_ASSIGN(const core::Image image, co_await find(tenant, std::move(name_or_id)));
  if (image.tenant != tenant)
    co_return fail(Code::denied, image_cannot("removed: it is the system's", image));
  // One transaction: a launch has its record before, or does not find the version after.
  FB_CO_TRY_ASSIGN(Removed removed, co_await services_.db.run([&](store::Store& store) {
    return remove_in(store, tenant, image.id);
  }));
  services_.steps.reach("image.removed");
  co_await forget(std::move(removed), deadline);
  co_return Result<>();
}

net::Task<Result<>> Images::remove_version(core::Image image, core::ImageVersion version,
                                           Deadline deadline) {
  FB_CO_TRY_ASSIGN(Removed removed, co_await services_.db.run([&](store::Store& store) {
    return remove_version_in(store, image, version);
  }));
  co_await forget(std::move(removed), deadline);
  co_return Result<>();
}

net::Task<Result<bool>> Images::is_needed(core::SnapshotRef snapshot) {
  FB_CO_TRY_ASSIGN(const auto versions, co_await services_.db.run([&](const store::Store& store) {
    return store.versions_with_snapshot(snapshot.name);
  }));
  co_return std::ranges::any_of(versions, [&](const core::ImageVersion& version) {
    return core::snapshot_of(version) == snapshot;
  });
}

net::Task<void> Images::forget_snapshot(core::SnapshotRef snapshot, Deadline deadline) {
  if (snapshot.empty()) co_return;
  // A build that changed nothing has taken the snapshot of an older version.
  const auto needed = co_await is_needed(snapshot);
  if (!needed || *needed || held_.contains(snapshot)) co_return;
  (void)co_await services_.catalogue.remove(std::move(snapshot), deadline);
}

net::Task<Result<bool>> Images::hold(core::SnapshotRef snapshot) {
  // Held before it is looked for: a removal that begins in between sees one or the other.
  held_.insert(snapshot);
  const auto needed = co_await is_needed(snapshot);
  if (needed && *needed) co_return true;
  co_await let_go(std::move(snapshot), Deadline::in(std::chrono::seconds(20)));
  if (!needed) co_return std::unexpected(needed.error());
  co_return false;
}

net::Task<void> Images::let_go(core::SnapshotRef snapshot, Deadline deadline) {
  if (const auto at = held_.find(snapshot); at != held_.end()) held_.erase(at);
  co_await forget_snapshot(std::move(snapshot), deadline);
}

}  // namespace firebreak::control
