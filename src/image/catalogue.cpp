#include "image/catalogue.h"

namespace firebreak::image {

net::Task<Result<std::shared_ptr<machine::Snapshot>>> Catalogue::load(core::SnapshotRef snapshot,
                                                                      Deadline deadline) {
  if (snapshot.empty()) co_return fail(Code::not_found, "the image version has no snapshot");
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, engines_.get(snapshot.engine));
  auto& slot = entries_[snapshot];
  if (!slot) slot = std::make_shared<Entry>(executor_);
  const std::shared_ptr<Entry> entry = slot;
  entry->last_used = clock_.now();
  if (entry->snapshot) co_return entry->snapshot;
  FB_CO_TRY_ASSIGN(auto turn, co_await entry->loading.lock(deadline));
  if (entry->snapshot) co_return entry->snapshot;
  auto loaded = co_await engine->load(engine->snapshot_directory(snapshot.name), deadline);
  if (!loaded) co_return fail(loaded.error(), "loading the image");
  entry->snapshot = *loaded;
  co_return *loaded;
}

Result<machine::DiskContent> Catalogue::disk(const core::SnapshotRef& snapshot) const {
  FB_TRY_ASSIGN(const machine::Engine* const engine, engines_.get(snapshot.engine));
  return engine->snapshot_disk(engine->snapshot_directory(snapshot.name));
}

machine::SnapshotBytes Catalogue::bytes(const core::SnapshotRef& snapshot) const {
  const auto engine = engines_.get(snapshot.engine);
  if (!engine || snapshot.empty()) return {};
  return (*engine)->snapshot_bytes((*engine)->snapshot_directory(snapshot.name));
}

net::Task<Result<>> Catalogue::remove(core::SnapshotRef snapshot, Deadline deadline) {
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, engines_.get(snapshot.engine));
  co_await release(snapshot);
  co_return co_await engine->remove_snapshot(engine->snapshot_directory(snapshot.name), deadline);
}

net::Task<void> Catalogue::release(core::SnapshotRef snapshot) {
  entries_.erase(snapshot);
  const auto engine = engines_.get(snapshot.engine);
  if (!engine) co_return;
  (void)co_await (*engine)->unload((*engine)->snapshot_directory(snapshot.name),
                                   Deadline::in(std::chrono::seconds(10)));
}

Result<std::vector<core::SnapshotRef>> Catalogue::found() const {
  std::vector<core::SnapshotRef> all;
  for (const machine::Engine* engine : engines_.all()) {
    FB_TRY_ASSIGN(const std::vector<std::string> names, engine->snapshots());
    for (const std::string& name : names) all.push_back({engine->name(), name});
  }
  return all;
}

std::vector<LoadedBase> Catalogue::loaded() const {
  std::vector<LoadedBase> bases;
  for (const machine::Engine* engine : engines_.all()) {
    const std::string prefix = engine->snapshot_directory("");
    // Also those that a machine brought with it when it was resumed or found running.
    for (const machine::HeldSnapshot& held : engine->held()) {
      if (!held.directory.starts_with(prefix)) continue;
      LoadedBase base{.snapshot = {engine->name(), held.directory.substr(prefix.size())},
                      .ram_bytes = held.ram_bytes,
                      .in_use = held.users > 0};
      if (auto at = entries_.find(base.snapshot); at != entries_.end()) {
        base.last_used = at->second->last_used;
        if (at->second->snapshot) base.in_use = held.users > 1;
      }
      bases.push_back(std::move(base));
    }
  }
  return bases;
}

}  // namespace firebreak::image
