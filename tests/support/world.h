// What VM tests and benchmarks share: an event loop, an engine on a fresh data directory, and
// snapshots made once per program. Also counts what an engine leaves on the host. One thread.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "machine/qemu/qemu_engine.h"
#include "net/task.h"

namespace firebreak::testing_support {

using machine::Engine;
using machine::Machine;
using machine::Snapshot;
using net::Task;

inline Deadline in_seconds(int seconds) {
  return Deadline::in(std::chrono::seconds(seconds));
}

struct Leftovers {
  std::vector<std::string> machines, cgroups, uids, processes, mounts;
  bool empty() const {
    return machines.empty() && cgroups.empty() && uids.empty() && processes.empty() &&
           mounts.empty();
  }
  std::string text() const;
};

class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  machine::QemuEngine& engine() { return *engine_; }
  // A second engine on the same data directory: what a restarted daemon is.
  std::unique_ptr<machine::QemuEngine> another_engine();
  const std::string& data_dir() const { return data_dir_; }
  std::string base_disk() const;
  net::asio::io_context& io() { return io_; }

  // Runs the loop until the coroutine is done. An exception (an ASSERT in a coroutine cannot
  // return) ends the program's test.
  void run(const std::function<Task<void>()>& body);

  // A snapshot of the base with our reaper as PID 1, made on first use and loaded once. `prepare`
  // runs in the booted machine before the freeze; `name` distinguishes snapshots.
  using Prepare = std::function<Task<Result<>>(Machine&)>;
  Task<Result<std::shared_ptr<Snapshot>>> snapshot(std::string name, machine::Size size,
                                                   machine::TenantSpec tenant, Prepare prepare);
  // The same with 256 MiB and nothing prepared, made once per build.
  Task<Result<std::shared_ptr<Snapshot>>> default_snapshot();
  // A clone of it, restored and woken.
  Task<Result<std::unique_ptr<Machine>>> launch(std::shared_ptr<Snapshot> snapshot);
  std::string next_id(const std::string& prefix = "vm");

  // What exists on the host that belongs to this engine; loaded snapshots and their holders do not
  // count.
  Leftovers leftovers();

 private:
  machine::QemuConfig config() const;

  std::string data_dir_;
  std::string cgroup_root_;
  net::asio::io_context io_;
  net::asio::thread_pool pool_{4};
  std::unique_ptr<machine::QemuEngine> engine_;
  std::map<std::string, std::shared_ptr<Snapshot>> snapshots_;
  int counter_ = 0;
};

// The program's one world; made on first use.
World& world();

}  // namespace firebreak::testing_support
