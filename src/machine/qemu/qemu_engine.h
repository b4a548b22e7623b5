// The Engine on QEMU. Owned by whoever wires the program; keeps loaded snapshots findable for
// resume. One executor.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "machine/engine.h"
#include "machine/file_hash.h"
#include "machine/inventory.h"
#include "machine/qemu/machine_host.h"
#include "machine/qemu/qemu_machine.h"
#include "machine/qemu/snapshot_hashes.h"
#include "net/semaphore.h"

namespace firebreak::machine {

class QemuEngine final : public Engine {
 public:
  // Prepares QEMU's runtime copy under the data directory; blocking.
  static Result<std::unique_ptr<QemuEngine>> create(QemuConfig config,
                                                    net::asio::any_io_executor executor,
                                                    net::asio::thread_pool& pool);

  const std::string& name() const override;
  Isolation isolation() const override { return isolation_of(host_.config().accelerator); }
  Features features() const override;

  net::Task<Result<std::unique_ptr<Machine>>> boot(BootSpec spec, Deadline deadline) override;
  net::Task<Result<std::shared_ptr<Snapshot>>> load(const std::string& directory,
                                                    Deadline deadline) override;
  net::Task<Result<std::unique_ptr<Machine>>> restore(std::shared_ptr<Snapshot> snapshot,
                                                      LaunchSpec spec, Deadline deadline) override;
  net::Task<Result<std::unique_ptr<Machine>>> resume(
      const std::string& id, Deadline deadline,
      std::optional<bool> network = std::nullopt) override;
  net::Task<Result<std::unique_ptr<Machine>>> attach(const std::string& id,
                                                     Deadline deadline) override;
  net::Task<Result<>> discard(const std::string& id, Deadline deadline) override;

  net::Task<Result<>> unload(const std::string& directory, Deadline deadline) override;
  std::vector<HeldSnapshot> held() const override;
  Result<DiskContent> snapshot_disk(const std::string& directory) const override {
    return machine::snapshot_disk(directory);
  }
  SnapshotBytes snapshot_bytes(const std::string& directory) const override;
  Result<> verify_snapshot(const std::string& directory) override {
    return hashes_->verify(directory);
  }
  std::string snapshot_directory(const std::string& name) const override {
    return host_.config().data_dir + "/snapshots/" + name;
  }
  Result<std::vector<std::string>> snapshots() const override;
  net::Task<Result<>> remove_snapshot(const std::string& directory, Deadline deadline) override;
  Result<std::vector<FoundMachine>> list() const override;
  bool is_suspended(const std::string& id) const override;
  std::uint64_t stored_bytes(const std::string& id) const override;

  std::set<std::string> own_machines() const override;
  Result<Inventory> inventory() const override;
  net::Task<Result<>> repair(Leftover leftover, Deadline deadline) override;

  // Snapshots of earlier servers name the disk below them by a path outside the data directory:
  // from now on by one in `directory`. Goes on after a failure and returns the first. Blocking;
  // before any of them is loaded.
  Result<> keep_bases(const std::string& directory) const;
  MachineHost& host() { return host_; }

 private:
  QemuEngine(MachineHost host, net::asio::any_io_executor executor, net::asio::thread_pool& pool)
      : host_(std::move(host)), executor_(std::move(executor)), pool_(pool) {}
  QemuDeps deps() { return {host_, executor_, pool_}; }
  // A snapshot in memory. Loading and unloading take turns: two loads would hold its memory twice.
  struct Base {
    explicit Base(const net::asio::any_io_executor& executor) : turn(executor) {}
    net::Mutex turn;
    std::weak_ptr<QemuSnapshot> snapshot;
    bool held = false;  // its holder runs
    std::uint64_t ram_bytes = 0;
  };
  std::shared_ptr<Base> base_of(const std::string& directory);
  // Those whose holders an earlier daemon started; blocking.
  void find_held();
  net::Task<Result<std::shared_ptr<QemuSnapshot>>> load_cached(std::string directory,
                                                               Deadline deadline);
  net::Task<Result<std::unique_ptr<QemuMachine>>> start_saved(
      MachineRecord record, std::shared_ptr<QemuSnapshot> snapshot, int saved_fd, Stopwatch& watch,
      Deadline deadline);
  // How names of prepared kernels end: another agent is another kernel. Blocking; any thread.
  Result<std::string> kernel_suffix() const;
  // A machine of that size whose kernel runs and has nothing mounted, frozen; made once.
  net::Task<Result<std::shared_ptr<QemuSnapshot>>> prepared_kernel(const BootSpec& spec,
                                                                   Deadline deadline);
  net::Task<Result<std::unique_ptr<QemuMachine>>> boot_kernel(const BootSpec& spec,
                                                              Stopwatch& watch, Deadline deadline);
  net::Task<Result<std::unique_ptr<QemuMachine>>> start_prepared(const BootSpec& spec,
                                                                 Stopwatch& watch,
                                                                 Deadline deadline);
  OwnProcesses own_processes() const;
  // Holders that no snapshot names, kernels that no build would use.
  std::vector<OwnLeftover> own_leftovers() const;
  // Blocking.
  Result<> end_process(const Leftover& leftover) const;
  Result<> repair_now(const Leftover& leftover, Deadline deadline);
  // Ends a process whose CPUs never ran: it is the suspended machine again.
  net::Task<Result<>> put_back(const MachineRecord& record);
  // Removes what a failed start left and passes the error on with the tail of QEMU's log.
  net::Task<Error> clean_up(std::string id, Error error);

  MachineHost host_;
  net::asio::any_io_executor executor_;
  net::asio::thread_pool& pool_;
  std::map<std::string, std::shared_ptr<Base>> bases_;  // by directory
  std::string preparing_id_;  // of a machine that becomes a kernel; empty: none
  net::Mutex preparing_{executor_};
  std::unique_ptr<FileHash> initramfs_hash_ = std::make_unique<FileHash>(host_.config().initramfs);
  std::unique_ptr<SnapshotHashes> hashes_ = std::make_unique<SnapshotHashes>();
};

}  // namespace firebreak::machine
