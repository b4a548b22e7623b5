// Machines that start from a disk: with a kernel that boots, or with one that was frozen when it
// had booted and had mounted nothing.
#include "base/sys.h"
#include "machine/qemu/base_holder.h"
#include "machine/qemu/qemu_engine.h"

namespace firebreak::machine {
namespace {

// Bases are ext4, and the first disk of the device graph.
const GuestRoot kRoot{.device = "/dev/vda", .fstype = "ext4"};

MachineRecord record_of(const BootSpec& spec, const std::string& runtime) {
  MachineRecord record;
  record.id = spec.id;
  record.size = spec.size;
  record.limits = spec.limits;
  record.runtime = runtime;
  record.network = spec.network;
  record.disks = {{spec.disk.base, DiskFormat::raw, 0}};
  for (const std::string& layer : spec.disk.layers)
    record.disks.push_back({layer, DiskFormat::qcow2, 0});
  return record;
}

Result<std::uint64_t> size_of(const std::string& path) {
  FB_TRY_ASSIGN(const UniqueFd disk, sys::open(path, O_RDONLY));
  return sys::file_size(disk.get());
}

}  // namespace

net::Task<Result<std::unique_ptr<Machine>>> QemuEngine::boot(BootSpec spec, Deadline deadline) {
  FB_CO_TRY(host_.check_new(spec.id));
  Stopwatch watch;
  auto machine = spec.throwaway ? co_await start_prepared(spec, watch, deadline)
                                : co_await boot_kernel(spec, watch, deadline);
  Result<> up = machine ? Result<>() : std::unexpected(machine.error());
  if (up) up = co_await (*machine)->agent().start_tenant(spec.tenant, kRoot, deadline);
  watch.lap("tenant");
  if (!up) {
    if (machine) machine->reset();
    co_return std::unexpected(
        co_await clean_up(spec.id, Error(fail(up.error(), "booting machine " + spec.id).error())));
  }
  (*machine)->set_phases(watch.phases());
  co_return *std::move(machine);
}

net::Task<Result<std::unique_ptr<QemuMachine>>> QemuEngine::boot_kernel(const BootSpec& spec,
                                                                        Stopwatch& watch,
                                                                        Deadline deadline) {
  MachineRecord record = record_of(spec, host_.runtime().hash);
  struct Start {
    RamImage ram;
    StartedProcess process;
  };
  auto start = [&]() -> Result<Start> {
    FB_TRY_ASSIGN(const std::uint64_t disk_bytes, size_of(spec.disk.base));
    FB_TRY(host_.prepare(record, disk_bytes));
    FB_TRY_ASSIGN(RamImage ram,
                  RamImage::create(static_cast<std::uint64_t>(spec.size.memory_mib) << 20));
    FB_TRY_ASSIGN(UniqueFd kernel, sys::open(host_.config().kernel, O_RDONLY));
    FB_TRY_ASSIGN(UniqueFd initrd, sys::open(host_.config().initramfs, O_RDONLY));
    CommandLine line = host_.command_line(record.size, record.disks);
    line.boot = true;
    line.shared_ram = true;
    FB_TRY_ASSIGN(StartedProcess process, host_.start(record, line,
                                                      {{ram.fd(), fd_number::kRam},
                                                       {kernel.get(), fd_number::kKernel},
                                                       {initrd.get(), fd_number::kInitrd}}));
    return Start{std::move(ram), std::move(process)};
  };
  FB_CO_TRY_ASSIGN(Start started, co_await net::run_blocking(pool_, start));
  watch.lap("spawn");
  auto machine = std::make_unique<QemuMachine>(deps(), record, std::move(started.process), nullptr,
                                               std::move(started.ram));
  FB_CO_TRY(co_await machine->agent_ready(deadline));
  watch.lap("kernel");
  co_return machine;
}

net::Task<Result<std::unique_ptr<QemuMachine>>> QemuEngine::start_prepared(const BootSpec& spec,
                                                                           Stopwatch& watch,
                                                                           Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto kernel, co_await prepared_kernel(spec, deadline));
  watch.lap("find");
  MachineRecord record = record_of(spec, kernel->record().key.runtime);
  auto start = [&]() -> Result<StartedProcess> {
    FB_TRY_ASSIGN(const std::uint64_t disk_bytes, size_of(spec.disk.base));
    // What the kernel knows of its disk is the size; all else it reads when it mounts.
    if (disk_bytes != kernel->record().disk_bytes)
      return fail(Code::invalid, "the disk " + spec.disk.base + " has another size than the base");
    FB_TRY(host_.prepare(record, disk_bytes));
    FB_TRY_ASSIGN(UniqueFd state, sys::open(kernel->state_path(), O_RDONLY));
    FB_TRY_ASSIGN(const UniqueFd ram, kernel->ram().reader());
    return host_.start(record, host_.command_line(kernel->record(), record.disks),
                       {{ram.get(), fd_number::kRam}, {state.get(), fd_number::kState}});
  };
  FB_CO_TRY_ASSIGN(StartedProcess started, co_await net::run_blocking(pool_, start));
  watch.lap("spawn");
  auto machine =
      std::make_unique<QemuMachine>(deps(), record, std::move(started), kernel, std::nullopt);
  FB_CO_TRY(co_await machine->agent_ready(deadline));
  watch.lap("load");
  co_return machine;
}

Result<std::string> QemuEngine::kernel_suffix() const {
  FB_TRY_ASSIGN(const std::string initramfs, initramfs_hash_->get());
  return "-" + initramfs.substr(0, 16);
}

net::Task<Result<std::shared_ptr<QemuSnapshot>>> QemuEngine::prepared_kernel(const BootSpec& spec,
                                                                             Deadline deadline) {
  FB_CO_TRY_ASSIGN(const auto guard, co_await preparing_.lock(deadline));
  const std::string name =
      std::to_string(spec.size.memory_mib) + "-" + std::to_string(spec.size.vcpus);
  auto find_suffix = [this]() { return kernel_suffix(); };
  FB_CO_TRY_ASSIGN(const std::string suffix, co_await net::run_blocking(pool_, find_suffix));
  const std::string directory = host_.config().data_dir + "/kernels/" + name + suffix;
  // Its memory is held by this process alone, as long as machines of builds run on it: nobody needs
  // it after a crash.
  auto load = [&]() -> net::Task<Result<std::shared_ptr<QemuSnapshot>>> {
    auto loaded = co_await load_cached(directory, deadline);
    (void)co_await unload(directory, deadline);
    co_return loaded;
  };
  if (sys::exists(directory + "/snapshot.json")) {
    if (auto known = co_await load()) co_return known;
    // Of another QEMU, or damaged.
    FB_CO_TRY(co_await remove_snapshot(directory, deadline));
  }
  BootSpec blank{.id = "kernel-" + sys::random_hex(8),
                 .size = spec.size,
                 .disk = {.base = spec.disk.base, .layers = {}}};
  Stopwatch watch;
  preparing_id_ = blank.id;  // only one at a time
  auto booted = co_await boot_kernel(blank, watch, deadline);
  Result<> frozen = booted ? co_await (*booted)->snapshot_kernel(directory, deadline)
                           : std::unexpected(booted.error());
  if (!frozen) {
    if (booted) booted->reset();
    (void)sys::remove_tree(directory);
    frozen = std::unexpected(co_await clean_up(blank.id, frozen.error()));
  }
  preparing_id_.clear();
  if (!frozen) co_return std::unexpected(frozen.error());
  co_return co_await load();
}

}  // namespace firebreak::machine
