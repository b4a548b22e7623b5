#include "machine/qemu/qemu_engine.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/qemu/base_holder.h"
#include "machine/qemu/fork_base.h"

namespace firebreak::machine {
namespace {

Deadline repair_deadline() {
  return Deadline::in(std::chrono::seconds(10));
}

}  // namespace

const std::string& QemuEngine::name() const {
  static const std::string kName = kQemuEngine;
  return kName;
}

Features QemuEngine::features() const {
  Features all{Feature::cut_layers, Feature::fork, Feature::park, Feature::suspend};
  if (host_.config().networks != nullptr) all.insert(Feature::network);
  return all;
}

Result<std::unique_ptr<QemuEngine>> QemuEngine::create(QemuConfig config,
                                                       net::asio::any_io_executor executor,
                                                       net::asio::thread_pool& pool) {
  FB_TRY_ASSIGN(MachineHost host, MachineHost::open(std::move(config)));
  std::unique_ptr<QemuEngine> engine(new QemuEngine(std::move(host), std::move(executor), pool));
  FB_TRY(remove_unused_fork_bases(engine->host_));
  engine->find_held();
  return engine;
}

net::Task<Error> QemuEngine::clean_up(std::string id, Error error) {
  if (auto log = sys::read_file(host_.machine_dir(id) + "/qemu.log", 1 << 20);
      log && !log->empty()) {
    if (!error.detail.empty()) error.detail += "; ";
    error.detail += "qemu: " + (log->size() > 400 ? log->substr(log->size() - 400) : *log);
  }
  auto remove = [this, &id]() { return host_.remove(id, repair_deadline()); };
  (void)co_await net::run_blocking(pool_, remove);
  co_return error;
}

net::Task<Result<>> QemuEngine::put_back(const MachineRecord& record) {
  auto back = [&]() -> Result<> {
    const Result<> stopped = host_.stop_process(record, repair_deadline());
    const std::string directory = host_.machine_dir(record.id);
    ::rename((directory + "/resuming").c_str(), (directory + "/saved").c_str());
    FB_TRY(sys::fsync_dir(directory));
    return stopped;
  };
  co_return co_await net::run_blocking(pool_, back);
}

std::shared_ptr<QemuEngine::Base> QemuEngine::base_of(const std::string& directory) {
  auto& base = bases_[directory];
  if (!base) base = std::make_shared<Base>(executor_);
  return base;
}

void QemuEngine::find_held() {
  for (const FoundHolder& holder : holders_below(host_.config().data_dir)) {
    if (!holder.noted) continue;
    const auto text = sys::read_file(holder.directory + "/snapshot.json");
    if (!text) continue;
    const auto record = parse_snapshot_record(*text);
    if (!record) continue;
    const auto ram = adopt_from_holder(holder.directory,
                                       static_cast<std::uint64_t>(record->size.memory_mib) << 20);
    if (!ram) continue;
    const auto base = base_of(holder.directory);
    base->held = true;
    base->ram_bytes = ram->allocated_bytes();
  }
}

net::Task<Result<std::shared_ptr<QemuSnapshot>>> QemuEngine::load_cached(std::string directory,
                                                                         Deadline deadline) {
  const auto base = base_of(directory);
  if (auto known = base->snapshot.lock()) co_return known;
  FB_CO_TRY_ASSIGN(const auto turn, co_await base->turn.lock(deadline));
  if (auto known = base->snapshot.lock()) co_return known;
  auto load = [this, &directory]() { return QemuSnapshot::load(host_, directory); };
  auto loaded = co_await net::run_blocking(pool_, load);
  std::erase_if(bases_, [](const auto& entry) {
    return is_fork_base(entry.first) && !sys::exists(entry.first);
  });
  if (loaded) {
    base->snapshot = *loaded;
    base->held = true;
    base->ram_bytes = (*loaded)->ram_bytes();
  }
  co_return loaded;
}

std::vector<HeldSnapshot> QemuEngine::held() const {
  std::vector<HeldSnapshot> found;
  for (const auto& [directory, base] : bases_) {
    const long users = base->snapshot.use_count();
    // It went with the last machine on it.
    if (is_fork_base(directory) && !sys::exists(directory)) continue;
    if (base->held || users > 0) found.push_back({directory, base->ram_bytes, users});
  }
  return found;
}

net::Task<Result<std::shared_ptr<Snapshot>>> QemuEngine::load(const std::string& directory,
                                                              Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto loaded, co_await load_cached(directory, deadline));
  co_return std::shared_ptr<Snapshot>(std::move(loaded));
}

net::Task<Result<std::unique_ptr<Machine>>> QemuEngine::restore(std::shared_ptr<Snapshot> snapshot,
                                                                LaunchSpec spec,
                                                                Deadline deadline) {
  FB_CO_TRY(host_.check_new(spec.id));
  auto source = std::dynamic_pointer_cast<QemuSnapshot>(std::move(snapshot));
  if (!source) co_return fail(Code::invalid, "the snapshot belongs to another engine");
  Stopwatch watch;
  MachineRecord record;
  record.id = spec.id;
  record.snapshot = source->directory();
  record.size = source->size();
  record.limits = spec.limits;
  record.runtime = source->record().key.runtime;
  record.network = spec.network;
  record.disks = source->record().disks;
  auto start = [&]() -> Result<StartedProcess> {
    FB_TRY(host_.prepare(record, source->record().disk_bytes));
    host_.faults().reach("prepared");
    FB_TRY_ASSIGN(UniqueFd state, sys::open(source->state_path(), O_RDONLY));
    FB_TRY_ASSIGN(const UniqueFd ram, source->ram().reader());
    return host_.start(record, host_.command_line(source->record(), record.disks),
                       {{ram.get(), fd_number::kRam}, {state.get(), fd_number::kState}});
  };
  auto started = co_await net::run_blocking(pool_, start);
  if (!started) co_return std::unexpected(co_await clean_up(spec.id, started.error()));
  watch.lap("spawn");
  auto machine =
      std::make_unique<QemuMachine>(deps(), record, *std::move(started), source, std::nullopt);
  host_.faults().reach("connected");
  auto up = co_await machine->agent_ready(deadline);
  watch.lap("load");
  if (!up) {
    machine.reset();
    co_return std::unexpected(co_await clean_up(
        spec.id, Error(fail(up.error(), "restoring machine " + spec.id).error())));
  }
  machine->set_phases(watch.phases());
  co_return std::move(machine);
}

net::Task<Result<std::unique_ptr<QemuMachine>>> QemuEngine::start_saved(
    MachineRecord record, std::shared_ptr<QemuSnapshot> snapshot, int saved_fd, Stopwatch& watch,
    Deadline deadline) {
  auto start = [&]() -> Result<StartedProcess> {
    // Of the process before the suspend; who finds it like this knows that none was started since.
    record.pid = 0;
    record.start_time = 0;
    FB_TRY(host_.write_record(record));
    // From here on the saved state is spent unless the start fails before the CPUs run: its disk
    // will change.
    if (::rename((host_.machine_dir(record.id) + "/saved").c_str(),
                 (host_.machine_dir(record.id) + "/resuming").c_str()) != 0)
      return fail_errno("rename of saved");
    FB_TRY(sys::fsync_dir(host_.machine_dir(record.id)));
    CommandLine line = host_.command_line(snapshot->record(), record.disks);
    line.defer_load = true;
    FB_TRY_ASSIGN(const UniqueFd ram, snapshot->ram().reader());
    return host_.start(record, line, {{ram.get(), fd_number::kRam}});
  };
  FB_CO_TRY_ASSIGN(StartedProcess started, co_await net::run_blocking(pool_, start));
  watch.lap("spawn");
  auto machine =
      std::make_unique<QemuMachine>(deps(), record, std::move(started), snapshot, std::nullopt);
  FB_CO_TRY(co_await machine->load_saved(saved_fd, deadline));
  // The saved card may have been left without anything behind it, and then its link is down.
  if (record.network) FB_CO_TRY(machine->qmp().post("set_link", {{"name", kNetdev}, {"up", true}}));
  watch.lap("load");
  host_.faults().reach("loaded");
  co_return machine;
}

net::Task<Result<std::unique_ptr<Machine>>> QemuEngine::resume(const std::string& id,
                                                               Deadline deadline,
                                                               std::optional<bool> network) {
  FB_CO_TRY(MachineHost::check_id(id));
  Stopwatch watch;
  FB_CO_TRY_ASSIGN(MachineRecord record, host_.read_record(id));
  const std::string directory = host_.machine_dir(id);
  auto saved = sys::open(directory + "/saved", O_RDONLY);
  if (!saved)
    co_return fail(Code::conflict, "machine " + id + " is not suspended", saved.error().message);
  FB_CO_TRY_ASSIGN(auto snapshot, co_await load_cached(record.snapshot, deadline));
  use_base_of(*snapshot, record);
  record.phase = MachinePhase::starting;
  record.network = network.value_or(record.network);
  watch.lap("find");
  auto machine = co_await start_saved(record, snapshot, saved->get(), watch, deadline);
  Result<> ready = machine ? Result<>() : std::unexpected(machine.error());
  if (ready && !(*machine)->runs()) ready = fail(Code::unavailable, "the virtual machine ended");
  if (!ready) {
    // Its CPUs never ran, so it is still exactly the suspended machine: it can be tried again.
    if (machine) machine->reset();
    if (auto now = host_.read_record(id)) (void)co_await put_back(*now);
    co_return fail(ready.error(), "resuming machine " + id);
  }
  // Before the CPUs run, and for good: after a power cut nobody may find it and use it again, for
  // the disk has moved on.
  auto spend = [&directory]() -> Result<> {
    ::unlink((directory + "/resuming").c_str());
    return sys::fsync_dir(directory);
  };
  Result<> up = co_await net::run_blocking(pool_, spend);
  host_.faults().reach("spent");
  if (up) up = co_await (*machine)->start_cpus(deadline);
  host_.faults().reach("resumed");
  if (up) up = co_await (*machine)->agent_ready(deadline);
  watch.lap("agent");
  if (!up) {
    // It may have written to its disk, so that nothing can bring it back: nothing of it stays.
    machine->reset();
    co_return std::unexpected(
        co_await clean_up(id, Error(fail(up.error(), "resuming machine " + id).error())));
  }
  (*machine)->set_phases(watch.phases());
  co_return *std::move(machine);
}

net::Task<Result<std::unique_ptr<Machine>>> QemuEngine::attach(const std::string& id,
                                                               Deadline deadline) {
  FB_CO_TRY(MachineHost::check_id(id));
  FB_CO_TRY_ASSIGN(MachineRecord record, host_.read_record(id));
  const std::string directory = host_.machine_dir(id);
  if (sys::exists(directory + "/saved")) {
    auto end = [&]() { return host_.stop_process(record, repair_deadline()); };
    (void)co_await net::run_blocking(pool_, end);
    co_return fail(Code::conflict, "machine " + id + " is suspended: resume it");
  }
  if (record.pid == 0 && sys::exists(directory + "/resuming")) {
    // A resume that was cut before it had a process.
    FB_CO_TRY(co_await put_back(record));
    co_return fail(Code::conflict, "machine " + id + " is suspended: resume it");
  }
  if (record.snapshot.empty())
    co_return fail(Code::conflict, "machine " + id + " was being built: discard it");
  FB_CO_TRY_ASSIGN(auto snapshot, co_await load_cached(record.snapshot, deadline));
  use_base_of(*snapshot, record);
  auto connect = [&]() { return host_.connect(record); };
  FB_CO_TRY_ASSIGN(StartedProcess process, co_await net::run_blocking(pool_, connect));
  auto machine =
      std::make_unique<QemuMachine>(deps(), record, std::move(process), snapshot, std::nullopt);
  host_.faults().reach("attach.connected");
  if (record.phase == MachinePhase::parked) co_return std::move(machine);
  // A suspend or fork that was cut half-way left the CPUs stopped; what it had written is not used.
  for (const char* const name : {"/saved.new", "/forked", "/forked.new"})
    ::unlink((directory + name).c_str());
  FB_CO_TRY(co_await machine->qmp().ready(deadline));
  FB_CO_TRY_ASSIGN(const bool waiting, co_await machine->waits_for_state(deadline));
  if (waiting) {
    // A resume that was cut before the state was loaded: its CPUs never ran, so it is still the
    // suspended machine.
    machine.reset();
    FB_CO_TRY(co_await put_back(record));
    co_return fail(Code::conflict, "machine " + id + " is suspended: resume it");
  }
  co_await machine->end_flatten(deadline);
  FB_CO_TRY(co_await machine->settle_layer(deadline));
  FB_CO_TRY(co_await machine->start_cpus(deadline));
  ::unlink((directory + "/resuming").c_str());
  host_.faults().reach("attach.running");
  FB_CO_TRY(co_await machine->agent_ready(deadline));
  co_return std::move(machine);
}

net::Task<Result<>> QemuEngine::discard(const std::string& id, Deadline deadline) {
  FB_CO_TRY(MachineHost::check_id(id));
  auto remove = [this, &id, deadline]() { return host_.remove(id, deadline); };
  co_return co_await net::run_blocking(pool_, remove);
}

net::Task<Result<>> QemuEngine::unload(const std::string& directory, Deadline deadline) {
  const auto base = base_of(directory);
  FB_CO_TRY_ASSIGN(const auto turn, co_await base->turn.lock(deadline));
  auto stop = [&]() -> Result<> {
    stop_holder(directory, deadline);
    return {};
  };
  base->held = false;
  co_return co_await net::run_blocking(pool_, stop);
}

net::Task<Result<>> QemuEngine::remove_snapshot(const std::string& directory, Deadline deadline) {
  const auto base = base_of(directory);
  FB_CO_TRY_ASSIGN(const auto turn, co_await base->turn.lock(deadline));
  auto remove = [&]() { return machine::remove_snapshot(directory, deadline); };
  base->held = false;
  hashes_->forget(directory);
  co_return co_await net::run_blocking(pool_, remove);
}

SnapshotBytes QemuEngine::snapshot_bytes(const std::string& directory) const {
  const auto allocated = [](const std::string& path) {
    struct stat st{};
    return ::stat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_blocks) * 512 : 0;
  };
  return {.disk = allocated(directory + "/disk.qcow2"), .memory = allocated(directory + "/ram")};
}

Result<std::vector<std::string>> QemuEngine::snapshots() const {
  const std::string directory = snapshot_directory("");
  if (!sys::exists(directory)) return std::vector<std::string>();
  FB_TRY_ASSIGN(std::vector<std::string> names, sys::list_dir(directory));
  std::erase_if(names, [](const std::string& name) { return is_fork_base(name); });
  return names;
}

Result<> QemuEngine::keep_bases(const std::string& directory) const {
  const std::string snapshots = host_.config().data_dir + "/snapshots";
  const auto names = sys::list_dir(snapshots);
  if (!names) return {};  // none yet
  Result<> first;
  for (const std::string& name : *names) {
    if (!sys::exists(snapshots + "/" + name + "/snapshot.json")) continue;
    auto kept = keep_base_of(snapshots + "/" + name, directory);
    if (first && !kept) first = fail(kept.error(), "snapshot " + name);
  }
  return first;
}

bool QemuEngine::is_suspended(const std::string& id) const {
  return sys::exists(host_.machine_dir(id) + "/saved");
}

std::uint64_t QemuEngine::stored_bytes(const std::string& id) const {
  std::uint64_t bytes = 0;
  const std::string directory = host_.machine_dir(id);
  auto names = sys::list_dir(directory);
  if (!names) return 0;
  for (const std::string& name : *names) {
    struct stat st{};
    if (::lstat((directory + "/" + name).c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    bytes += static_cast<std::uint64_t>(st.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace firebreak::machine
