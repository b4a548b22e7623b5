#include "machine/scratch_engine.h"

#include <csignal>
#include <ctime>
#include <exception>
#include <filesystem>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/file.h>

#include "base/sys.h"
#include "machine/qemu/snapshot.h"

namespace firebreak::machine {
namespace {

constexpr std::string_view kPrefix = "doctor-";
constexpr std::chrono::seconds kRemovalTime{10};
constexpr std::time_t kSettledSeconds = 60;
// Beside the range of the real engine, which may be at work on this host.
constexpr uid_t kFirstUid = 705'000;
constexpr uid_t kUidsEach = 16;
constexpr uid_t kSlots = 64;

std::string cgroup_root_of(const std::string& directory) {
  return "firebreak-" + std::filesystem::path(directory).filename().string();
}

// Names everything by the directory alone, so that it also works on what a killed process left.
Result<> remove_scratch(const std::string& directory) {
  const Deadline deadline = Deadline::in(kRemovalTime);
  Result<> first;
  const auto note = [&first](Result<> result) {
    if (first && !result) first = std::move(result);
  };
  const CgroupRoot groups(cgroup_root_of(directory));
  if (const auto names = groups.list()) {
    for (const std::string& name : *names)
      if (const auto group = groups.open(name)) note(group->destroy(deadline));
  }
  note(groups.remove());
  const std::string snapshots = directory + "/snapshots/";
  if (const auto names = sys::list_dir(snapshots)) {
    for (const std::string& name : *names) note(remove_snapshot(snapshots + name, deadline));
  }
  note(sys::remove_tree(directory));
  return first;
}

Result<UniqueFd> lock(const std::string& directory) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(directory, O_RDONLY | O_DIRECTORY));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno("lock " + directory);
  return fd;
}

void remove_stale(const std::string& data_dir) {
  const auto names = sys::list_dir(data_dir);
  if (!names) return;
  const std::string parent = data_dir + "/";
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string directory = parent + name;
    struct stat st{};
    // A young one may be another's that is just about to lock it.
    if (::stat(directory.c_str(), &st) != 0 ||
        std::time(nullptr) - st.st_mtim.tv_sec < kSettledSeconds)
      continue;
    if (const auto held = lock(directory)) (void)remove_scratch(directory);
  }
}

}  // namespace

Result<std::unique_ptr<ScratchEngine>> ScratchEngine::create(const HostPaths& paths,
                                                             Accelerator accelerator) {
  // QEMU's runtime copy is the real engine's: it is made once and kept.
  FB_TRY(sys::mkdirs(paths.data_dir, 0700));
  FB_TRY(sys::mkdir(paths.data_dir + "/runtime", 0755));
  remove_stale(paths.data_dir);
  const std::string directory = paths.data_dir + "/" + std::string(kPrefix) + sys::random_hex(4);
  FB_TRY(sys::mkdir(directory, 0700));
  auto held = lock(directory);
  if (!held) {
    (void)sys::remove_tree(directory);
    return std::unexpected(std::move(held).error());
  }
  std::unique_ptr<ScratchEngine> scratch(new ScratchEngine(directory, *std::move(held)));
  if (::symlink("../runtime", (directory + "/runtime").c_str()) != 0)
    return fail_errno("link to the runtime");

  QemuConfig config;
  config.data_dir = directory;
  config.kernel = paths.kernel();
  config.initramfs = paths.initramfs();
  config.holder = paths.holder;
  config.accelerator = accelerator;
  config.cgroup_root = cgroup_root_of(directory);
  config.uids.first = kFirstUid + static_cast<uid_t>(::getpid()) % kSlots * kUidsEach;
  config.uids.count = kUidsEach;
  FB_TRY_ASSIGN(scratch->engine_,
                QemuEngine::create(std::move(config), scratch->io_.get_executor(), scratch->pool_));
  return scratch;
}

ScratchEngine::~ScratchEngine() {
  (void)remove();
}

void ScratchEngine::run(net::Task<void> task) {
  bool done = false;
  int killed_by = 0;
  std::exception_ptr failure;
  net::asio::co_spawn(io_, std::move(task), [&](std::exception_ptr thrown) {
    failure = std::move(thrown);
    done = true;
  });
  net::asio::signal_set signals(io_, SIGINT, SIGTERM);
  signals.async_wait([&killed_by](boost::system::error_code ec, int signal) {
    if (!ec) killed_by = signal;
  });
  io_.restart();
  while (!done && killed_by == 0) io_.run_one();
  signals.clear();
  if (killed_by != 0) {
    (void)remove();
    (void)std::raise(killed_by);
  }
  if (failure) std::rethrow_exception(failure);
}

Result<> ScratchEngine::remove() {
  pool_.join();
  Result<> first;
  if (engine_) {
    if (const auto ids = engine_->host().machine_ids()) {
      for (const std::string& id : *ids) {
        auto removed = engine_->host().remove(id, Deadline::in(kRemovalTime));
        if (first && !removed) first = std::move(removed);
      }
    }
  }
  auto removed = remove_scratch(directory_);
  return first ? removed : first;
}

}  // namespace firebreak::machine
