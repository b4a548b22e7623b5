// One QEMU guest: its process, monitor and agent. Made by QemuEngine. Destroying the object closes
// the connections and leaves the guest running; only terminate, suspend and snapshot end it. One
// executor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "machine/engine.h"
#include "machine/qemu/machine_host.h"
#include "machine/qemu/qmp.h"
#include "machine/qemu/ram_image.h"
#include "machine/qemu/snapshot.h"
#include "machine/qemu/stopwatch.h"

namespace firebreak::machine {

// What the machines of an engine work with; outlives them.
struct QemuDeps {
  MachineHost& host;
  net::asio::any_io_executor executor;
  net::asio::thread_pool& pool;
};

class QemuMachine final : public Machine {
 public:
  QemuMachine(QemuDeps deps, MachineRecord record, StartedProcess started,
              std::shared_ptr<QemuSnapshot> snapshot, std::optional<RamImage> own_ram);
  ~QemuMachine() override;
  QemuMachine(const QemuMachine&) = delete;
  QemuMachine& operator=(const QemuMachine&) = delete;

  const std::string& id() const override { return record_.id; }
  Isolation isolation() const override;
  Size size() const override { return record_.size; }
  pid_t pid() const override { return process_.id().pid; }
  AgentClient& agent() override { return agent_; }
  const Phases& phases() const override { return phases_; }
  Qmp& qmp() { return *qmp_; }
  const MachineRecord& record() const { return record_; }
  std::string path(const std::string& name) const {
    return deps_.host.machine_dir(record_.id) + "/" + name;
  }

  net::Task<Result<>> wake(const Identity& identity, Deadline deadline) override;
  net::Task<Result<>> rehearse(Deadline deadline) override;
  net::Task<Result<>> park(Deadline deadline) override;
  net::Task<Result<>> unpark(const Identity& identity, Deadline deadline) override;
  net::Task<Result<>> detach_network() override;
  net::Task<Result<>> cut_layer(const std::string& path, Deadline deadline) override;
  net::Task<Result<>> snapshot(const std::string& directory, Deadline deadline) override;
  net::Task<Result<>> suspend(Deadline deadline) override;
  net::Task<Result<>> fork(const std::vector<std::string>& ids, Deadline deadline) override;
  net::Task<Result<>> terminate(Deadline deadline) override;
  net::Task<bool> wait_exit(Deadline deadline) override;
  Result<ProcessUsage> usage() const override;
  Result<> set_limits(const HostLimits& limits) override;
  bool killed_for_memory() const override;
  bool out_of_disk() const override { return *out_of_disk_; }
  Result<> retry_disk() override;

  // Used by the engine while it starts the machine.
  void set_phases(Phases phases) { phases_ = std::move(phases); }
  bool runs() const { return process_.running(); }
  // Both channels have answered.
  net::Task<Result<>> agent_ready(Deadline deadline);
  // Puts a saved state into the waiting process and loads it; the virtual CPUs are still stopped.
  net::Task<Result<>> load_saved(int saved_fd, Deadline deadline);
  net::Task<Result<>> start_cpus(Deadline deadline);
  // As snapshot(), of a machine that has no tenant.
  net::Task<Result<>> snapshot_kernel(const std::string& directory, Deadline deadline);
  // What a daemon that is gone had begun: layers that became one, or a new one, which QEMU came to
  // use or did not.
  net::Task<void> end_flatten(Deadline deadline);
  net::Task<Result<>> settle_layer(Deadline deadline);
  // True while no state was loaded: the CPUs have never run.
  net::Task<Result<bool>> waits_for_state(Deadline deadline);
  // The tail of QEMU's log, for the detail of an error.
  std::string log_tail() const;

 private:
  net::Task<Result<>> stop_cpus(Deadline deadline);
  net::Task<Result<>> rehearse(bool network, Deadline deadline);
  // Device state into memory or a file.
  Result<std::uint64_t> submit_save_state(int fd);
  // Device state and changed pages into `saved_path`; the CPUs are stopped. Returns the file.
  net::Task<Result<UniqueFd>> save(const std::string& saved_path, Deadline deadline);
  net::Task<Result<>> freeze_and_stop(bool destroy_sockets, Deadline deadline);
  // After a failed suspend or fork: the guest goes on as if nothing had been asked.
  net::Task<void> undo_freeze(Deadline deadline);
  net::Task<Result<>> write_durably(UniqueFd saved, Deadline deadline);
  // Blocking.
  Result<> name_saved() const;
  Result<> sync_directory() const;
  net::Task<Result<>> switch_to_new_layer(Deadline deadline);
  net::Task<Result<std::uint64_t>> top_node(Deadline deadline);
  net::Task<Result<>> overlay(std::uint64_t top, const std::string& below, const std::string& file,
                              Deadline deadline);
  net::Task<void> remove_node(std::uint64_t number, Deadline deadline);
  std::string layer_path(std::uint64_t number) const {
    return path("disk-" + std::to_string(number) + ".qcow2");
  }
  // CPUs stopped, state and RAM written, the process gone.
  net::Task<Result<>> become_snapshot(const std::string& directory, Stopwatch& watch,
                                      Deadline deadline);
  // Copies all layers between the lowest `kept` ones and the machine's own into the latter. The
  // guest may run meanwhile.
  net::Task<Result<>> flatten(std::size_t kept, Deadline deadline);
  net::Task<Result<>> stream(std::uint64_t top, std::size_t kept, Deadline deadline);
  net::Task<Result<std::string>> flatten_state(Deadline deadline);
  net::Task<Result<>> flatten_ended(Deadline deadline);
  Result<std::uint64_t> disk_bytes() const;  // virtual
  Result<> write_children(const std::vector<std::string>& ids,
                          const std::vector<DiskLayer>& frozen_layers, UniqueFd saved);
  Result<> write_child(const std::string& id, const std::string& base,
                       const std::vector<DiskLayer>& frozen_layers);
  Result<> check_clone(std::string_view doing) const;
  // The record as it is now.
  net::Task<Result<>> write_record();
  template <class Work>
  auto blocking(Work work) {
    return net::run_blocking(deps_.pool, std::move(work));
  }

  QemuDeps deps_;
  MachineRecord record_;
  std::shared_ptr<QemuSnapshot> snapshot_;  // none: booted
  std::optional<RamImage> own_ram_;         // of a booted machine
  JailedProcess process_;
  std::shared_ptr<Qmp> qmp_;
  AgentClient agent_;
  std::uint64_t next_fdset_ = 1U << 20;  // above those of disks
  // Shared with the monitor's handler, which may outlive this object by a turn of the loop.
  std::shared_ptr<bool> out_of_disk_ = std::make_shared<bool>(false);
  Phases phases_;
};

}  // namespace firebreak::machine
