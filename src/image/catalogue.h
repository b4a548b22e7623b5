// The snapshots of image versions, each with the engine that made it: loaded on demand and shared
// by all clones of a version. Owned by the program; one executor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "machine/engines.h"
#include "net/semaphore.h"

namespace firebreak::image {

struct LoadedBase {
  core::SnapshotRef snapshot;
  std::uint64_t ram_bytes = 0;
  bool in_use = false;  // a clone lives on it
  core::Time last_used{};
};

class Catalogue {
 public:
  Catalogue(const machine::Engines& engines, net::asio::any_io_executor executor,
            const core::Clock& clock)
      : engines_(engines), executor_(std::move(executor)), clock_(clock) {}

  // All of these: Code::unavailable when this server does not have the snapshot's engine.
  // Loads once, however many ask at the same time.
  net::Task<Result<std::shared_ptr<machine::Snapshot>>> load(core::SnapshotRef snapshot,
                                                             Deadline deadline);
  // What machines that are built on it begin with.
  Result<machine::DiskContent> disk(const core::SnapshotRef& snapshot) const;
  // From memory and disk. No clone may be left.
  net::Task<Result<>> remove(core::SnapshotRef snapshot, Deadline deadline);

  // Nothing, when the engine is not there.
  machine::SnapshotBytes bytes(const core::SnapshotRef& snapshot) const;
  // All whose memory is held, whoever loaded them.
  std::vector<LoadedBase> loaded() const;
  // Gives its memory back once no clone lives on it.
  net::Task<void> release(core::SnapshotRef snapshot);
  // Those on the disk, whole or not.
  Result<std::vector<core::SnapshotRef>> found() const;

 private:
  struct Entry {
    explicit Entry(const net::asio::any_io_executor& executor) : loading(executor) {}
    net::Mutex loading;
    std::shared_ptr<machine::Snapshot> snapshot;
    core::Time last_used{};
  };

  const machine::Engines& engines_;
  net::asio::any_io_executor executor_;
  const core::Clock& clock_;
  std::map<core::SnapshotRef, std::shared_ptr<Entry>> entries_;
};

}  // namespace firebreak::image
