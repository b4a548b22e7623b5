#include "support/world.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <sys/prctl.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/qemu/snapshot.h"
#include "support/environment.h"
#include "support/prepared.h"

namespace firebreak::testing_support {
namespace {

std::string join(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) out += (out.empty() ? "" : ", ") + item;
  return "[" + out + "]";
}

// Emulation runs everywhere; KVM is for where it is known to run guests (vm.nested_kvm).
machine::Accelerator wanted_accelerator() {
  const char* name = std::getenv("FIREBREAK_TEST_ACCELERATOR");
  const bool kvm = name != nullptr && machine::to_string(machine::Accelerator::kvm) == name;
  return kvm ? machine::Accelerator::kvm : machine::Accelerator::tcg;
}

}  // namespace

std::string Leftovers::text() const {
  return "machines " + join(machines) + " cgroups " + join(cgroups) + " uids " + join(uids) +
         " processes " + join(processes) + " mounts " + join(mounts);
}

World::World()
    : data_dir_(std::filesystem::temp_directory_path() / ("firebreak-test-" + sys::random_hex(4))),
      cgroup_root_("firebreak-test-" + std::to_string(::getpid())) {
  // Orphans of jails come to us and are reaped, as with a daemon.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  auto engine = machine::QemuEngine::create(config(), io_.get_executor(), pool_);
  if (!engine) {
    std::cerr << "engine: " << engine.error().text() << "\n";
    std::exit(2);
  }
  engine_ = *std::move(engine);
}

World::~World() {
  snapshots_.clear();
  // Also those that a test made by itself: each that was loaded has a holder.
  const std::string all = data_dir_ + "/snapshots";
  for (const std::string& name : sys::list_dir(all).value_or(std::vector<std::string>{}))
    (void)machine::remove_snapshot(all + "/" + name, in_seconds(5));
  engine_.reset();
  pool_.join();
  (void)machine::CgroupRoot(cgroup_root_).remove();
  (void)sys::remove_tree(data_dir_);
}

machine::QemuConfig World::config() const {
  const std::string guest = environment_or_die("FIREBREAK_GUEST_DIR");
  machine::QemuConfig config;
  config.data_dir = data_dir_;
  config.kernel = guest + "/vmlinux";
  config.initramfs = guest + "/initramfs.cpio";
  config.holder = environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak-holder";
  config.accelerator = wanted_accelerator();
  config.cgroup_root = cgroup_root_;
  // Several test programs may run at once.
  config.uids.first = 710000 + static_cast<uid_t>(::getpid() % 4096) * 256;
  config.uids.count = 256;
  return config;
}

std::unique_ptr<machine::QemuEngine> World::another_engine() {
  auto engine = machine::QemuEngine::create(config(), io_.get_executor(), pool_);
  if (!engine) throw std::runtime_error(engine.error().text());
  return *std::move(engine);
}

std::string World::base_disk() const {
  return environment_or_die("FIREBREAK_GUEST_DIR") + "/base.ext4";
}

void World::run(const std::function<Task<void>()>& body) {
  bool done = false;
  std::exception_ptr failure;
  net::asio::co_spawn(io_, body(), [&](std::exception_ptr e) {
    failure = e;
    done = true;
  });
  io_.restart();
  while (!done) io_.run_one();
  if (failure) std::rethrow_exception(failure);
}

std::string World::next_id(const std::string& prefix) {
  return prefix + "-" + std::to_string(++counter_);
}

Task<Result<std::shared_ptr<Snapshot>>> World::snapshot(std::string name, machine::Size size,
                                                        machine::TenantSpec tenant,
                                                        Prepare prepare) {
  if (auto known = snapshots_.find(name); known != snapshots_.end()) co_return known->second;
  machine::BootSpec spec{.id = next_id("boot"),
                         .size = size,
                         .disk = {.base = base_disk(), .layers = {}},
                         .tenant = std::move(tenant)};
  FB_CO_TRY_ASSIGN(auto booted, co_await engine_->boot(spec, in_seconds(300)));
  if (prepare) FB_CO_TRY(co_await prepare(*booted));
  const std::string directory = data_dir_ + "/snapshots/" + name;
  FB_CO_TRY(co_await booted->snapshot(directory, in_seconds(300)));
  FB_CO_TRY_ASSIGN(auto loaded, co_await engine_->load(directory, in_seconds(120)));
  snapshots_[name] = loaded;
  co_return loaded;
}

Task<Result<std::shared_ptr<Snapshot>>> World::default_snapshot() {
  const std::string name = "default";
  if (auto known = snapshots_.find(name); known != snapshots_.end()) co_return known->second;
  const Prepared prepared("snapshot");
  const std::string directory = data_dir_ + "/snapshots/" + name;
  FB_CO_TRY(sys::mkdirs(data_dir_ + "/snapshots", 0700));
  if (prepared.copy_to(directory)) {
    if (auto loaded = co_await engine_->load(directory, in_seconds(120))) {
      snapshots_[name] = *loaded;
      co_return *loaded;
    }
  }
  FB_CO_TRY(sys::remove_tree(directory));  // of another engine, or half of it
  FB_CO_TRY_ASSIGN(auto made,
                   co_await snapshot(name, {.vcpus = 1, .memory_mib = 256}, {}, nullptr));
  (void)prepared.keep(directory);  // the next program makes it again
  co_return made;
}

Task<Result<std::unique_ptr<Machine>>> World::launch(std::shared_ptr<Snapshot> snapshot) {
  const std::string id = next_id();
  FB_CO_TRY_ASSIGN(auto machine,
                   co_await engine_->restore(std::move(snapshot), {.id = id}, in_seconds(120)));
  FB_CO_TRY(co_await machine->wake(machine::fresh_identity(id, 1), in_seconds(60)));
  co_return std::move(machine);
}

Leftovers World::leftovers() {
  Leftovers left;
  auto found = engine_->inventory();
  if (!found) throw std::runtime_error(found.error().text());
  for (const auto& machine : found->machines) left.machines.push_back(machine.id);
  for (const auto& group : found->cgroups) left.cgroups.push_back(group.name);
  for (const auto& lease : found->uids) left.uids.push_back(std::to_string(lease.uid));
  for (const auto& process : found->processes)
    left.processes.push_back(std::to_string(process.pid));
  left.mounts = found->mounts;
  return left;
}

World& world() {
  static World instance;
  return instance;
}

}  // namespace firebreak::testing_support
