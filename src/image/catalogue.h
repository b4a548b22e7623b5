// The snapshots of image versions, loaded on demand and shared by all clones of a version. Owned by
// the program; one executor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "machine/engine.h"
#include "net/semaphore.h"

namespace firebreak::image {

struct LoadedBase {
  std::string snapshot;
  std::uint64_t ram_bytes = 0;
  bool in_use = false;  // a clone lives on it
  core::Time last_used{};
};

class Catalogue {
 public:
  Catalogue(machine::Engine& engine, net::asio::any_io_executor executor, std::string data_dir,
            const core::Clock& clock)
      : engine_(engine),
        executor_(std::move(executor)),
        data_dir_(std::move(data_dir)),
        clock_(clock) {}

  // Directory of a snapshot by the name that a version's record has.
  std::string directory(const std::string& snapshot) const {
    return data_dir_ + "/snapshots/" + snapshot;
  }
  // Loads once, however many ask at the same time.
  net::Task<Result<std::shared_ptr<machine::Snapshot>>> load(std::string snapshot,
                                                             Deadline deadline);
  // All whose memory is held, whoever loaded them.
  std::vector<LoadedBase> loaded() const;
  // Gives its memory back once no clone lives on it.
  net::Task<void> release(std::string snapshot);

 private:
  struct Entry {
    explicit Entry(const net::asio::any_io_executor& executor) : loading(executor) {}
    net::Mutex loading;
    std::shared_ptr<machine::Snapshot> snapshot;
    core::Time last_used{};
  };

  machine::Engine& engine_;
  net::asio::any_io_executor executor_;
  std::string data_dir_;
  const core::Clock& clock_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace firebreak::image
