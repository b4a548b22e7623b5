// An engine for trying out the host: own event loop, own directory and cgroup below those of the
// real one, and everything of it removed at the end. Owned by the probe that needs it; one thread,
// which is blocked while a trial runs.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "machine/qemu/accelerator.h"
#include "machine/qemu/qemu_engine.h"

namespace firebreak::machine {

// Where firebreak's files are on this host.
struct HostPaths {
  std::string data_dir;
  std::string guest_dir;
  std::string holder;  // program

  std::string kernel() const { return guest_dir + "/vmlinux"; }
  std::string initramfs() const { return guest_dir + "/initramfs.cpio"; }
  std::string base_disk() const { return guest_dir + "/base.ext4"; }
  std::string debian_disk() const { return guest_dir + "/debian.ext4"; }
  std::string scratch_disk() const { return guest_dir + "/scratch.ext4"; }
};

class ScratchEngine {
 public:
  // Also removes what an earlier one left that was killed.
  static Result<std::unique_ptr<ScratchEngine>> create(const HostPaths& paths,
                                                       Accelerator accelerator);
  ScratchEngine(const ScratchEngine&) = delete;
  ScratchEngine& operator=(const ScratchEngine&) = delete;
  ~ScratchEngine();

  QemuEngine& engine() { return *engine_; }
  const std::string& directory() const { return directory_; }

  // Runs the loop until the task is done. SIGINT and SIGTERM end this process, as ever, but only
  // after everything was removed.
  void run(net::Task<void> task);
  // Idempotent.
  Result<> remove();

 private:
  ScratchEngine(std::string directory, UniqueFd lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}

  std::string directory_;
  UniqueFd lock_;
  net::asio::io_context io_;
  net::asio::thread_pool pool_{4};
  std::unique_ptr<QemuEngine> engine_;
};

}  // namespace firebreak::machine
