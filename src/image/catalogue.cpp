#include "image/catalogue.h"

namespace firebreak::image {

net::Task<Result<std::shared_ptr<machine::Snapshot>>> Catalogue::load(std::string snapshot,
                                                                      Deadline deadline) {
  if (snapshot.empty()) co_return fail(Code::not_found, "the image version has no snapshot");
  auto& slot = entries_[snapshot];
  if (!slot) slot = std::make_shared<Entry>(executor_);
  const std::shared_ptr<Entry> entry = slot;
  entry->last_used = clock_.now();
  if (entry->snapshot) co_return entry->snapshot;
  FB_CO_TRY_ASSIGN(auto turn, co_await entry->loading.lock(deadline));
  if (entry->snapshot) co_return entry->snapshot;
  auto loaded = co_await engine_.load(directory(snapshot), deadline);
  if (!loaded) co_return fail(loaded.error(), "loading the image");
  entry->snapshot = *loaded;
  co_return *loaded;
}

net::Task<void> Catalogue::release(std::string snapshot) {
  entries_.erase(snapshot);
  (void)co_await engine_.unload(directory(snapshot), Deadline::in(std::chrono::seconds(10)));
}

std::vector<LoadedBase> Catalogue::loaded() const {
  std::vector<LoadedBase> bases;
  const std::string prefix = directory("");
  // Also those that a machine brought with it when it was resumed or found running.
  for (const machine::HeldSnapshot& held : engine_.held()) {
    if (!held.directory.starts_with(prefix)) continue;
    LoadedBase base{.snapshot = held.directory.substr(prefix.size()),
                    .ram_bytes = held.ram_bytes,
                    .in_use = held.users > 0};
    if (auto at = entries_.find(base.snapshot); at != entries_.end()) {
      base.last_used = at->second->last_used;
      if (at->second->snapshot) base.in_use = held.users > 1;
    }
    bases.push_back(std::move(base));
  }
  return bases;
}

}  // namespace firebreak::image
