#include "machine/qemu/qemu_machine.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/qemu/qcow2.h"
#include "machine/qemu/saved_memory.h"

namespace firebreak::machine {
namespace {

net::Channel::Socket adopt_socket(const net::asio::any_io_executor& executor, UniqueFd fd) {
  net::Channel::Socket socket(executor);
  boost::system::error_code ec;
  socket.assign(net::asio::local::stream_protocol(), fd.get(), ec);
  if (!ec) fd.release();
  return socket;
}

Result<std::string> read_memfd(int fd) {
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(fd));
  // A state is tens of kilobytes; more is what an escaped guest would write.
  if (size > kMaxState) return fail(Code::guest, "the device state is implausibly large");
  std::string bytes(size, '\0');
  FB_TRY(sys::pread_all(fd, std::as_writable_bytes(std::span(bytes)), 0));
  return bytes;
}

constexpr std::chrono::milliseconds kCalm{500};

// Under our own deadline, whatever the caller's was: for putting things right after a failure.
Deadline repair_deadline() {
  return Deadline::in(std::chrono::seconds(10));
}

}  // namespace

QemuMachine::QemuMachine(QemuDeps deps, MachineRecord record, StartedProcess started,
                         std::shared_ptr<QemuSnapshot> snapshot, std::optional<RamImage> own_ram)
    : deps_(std::move(deps)),
      record_(std::move(record)),
      snapshot_(std::move(snapshot)),
      own_ram_(std::move(own_ram)),
      process_(std::move(started.process)),
      qmp_(Qmp::start(adopt_socket(deps_.executor, std::move(started.qmp)))),
      agent_(net::Channel::start(adopt_socket(deps_.executor, std::move(started.ctl))),
             net::Channel::start(adopt_socket(deps_.executor, std::move(started.data)))) {
  qmp_->on_event([stands = out_of_disk_](std::string_view name, const json::object& data) {
    if (name == "RESUME") *stands = false;
    if (name != "BLOCK_IO_ERROR") return;
    // Other errors are the guest's to handle, and it goes on.
    const json::value* action = data.if_contains("action");
    if (action != nullptr && action->is_string() && action->as_string() == "stop") *stands = true;
  });
}

QemuMachine::~QemuMachine() {
  agent_.close();
  qmp_->close();
}

Isolation QemuMachine::isolation() const {
  return isolation_of(deps_.host.config().accelerator);
}

std::string QemuMachine::log_tail() const {
  auto text = sys::read_file(path("qemu.log"), 4 << 20);
  if (!text) return {};
  return text->size() > 400 ? text->substr(text->size() - 400) : *text;
}

Result<> QemuMachine::check_clone(std::string_view doing) const {
  if (snapshot_ && record_.phase == MachinePhase::running) return {};
  return fail(
      Code::conflict,
      "machine " + record_.id + " cannot be " + std::string(doing) + ": it is " +
          (snapshot_ ? std::string(to_string(record_.phase)) : "not a clone of a snapshot"));
}

net::Task<Result<>> QemuMachine::agent_ready(Deadline deadline) {
  FB_CO_TRY(co_await agent_.ctl().ready(deadline));
  co_return co_await agent_.data().ready(deadline);
}

net::Task<Result<>> QemuMachine::stop_cpus(Deadline deadline) {
  FB_CO_TRY(co_await qmp_->execute("stop", {}, deadline));
  co_return Result<>();
}

net::Task<Result<>> QemuMachine::start_cpus(Deadline deadline) {
  FB_CO_TRY(co_await qmp_->execute("cont", {}, deadline));
  co_return Result<>();
}

net::Task<Result<>> QemuMachine::write_record() {
  // A copy: nobody waits for this one when the machine is given up.
  auto write = [&host = deps_.host, record = record_]() { return host.write_record(record); };
  co_return co_await blocking(std::move(write));
}

// ------------------------------------------------------------------------------------- wake, park

net::Task<Result<>> QemuMachine::wake(const Identity& identity, Deadline deadline) {
  Stopwatch watch;
  if (record_.forked) {
    FB_CO_TRY(co_await agent_.freeze(true, false, deadline));
    record_.forked = false;
  }
  AgentClient::Wake wake{.hostname = identity.hostname,
                         .machine_id = identity.machine_id,
                         .generation = identity.generation,
                         .network = identity.network,
                         .metadata = identity.metadata};
  deps_.host.faults().reach("wake");
  FB_CO_TRY(co_await agent_.wake(wake, deadline));
  deps_.host.faults().reach("woken");
  watch.lap("wake");
  record_.phase = MachinePhase::running;
  FB_CO_TRY(co_await write_record());
  watch.lap("record");
  phases_ = watch.phases();
  co_return Result<>();
}

net::Task<Result<>> QemuMachine::rehearse(Deadline deadline) {
  return rehearse(record_.network, deadline);
}

net::Task<Result<>> QemuMachine::rehearse(bool network, Deadline deadline) {
  deps_.host.faults().reach("rehearse");
  FB_CO_TRY(co_await agent_.rehearse(network, deadline));
  // Stopped and started, as it will be when it is parked and wanted; and the card's cable pulled,
  // as it will be for a microVM without a network.
  FB_CO_TRY(co_await stop_cpus(deadline));
  FB_CO_TRY(co_await start_cpus(deadline));
  for (const bool up : {false, true}) {
    if (network)
      FB_CO_TRY(co_await qmp_->execute("set_link", {{"name", kNetdev}, {"up", up}}, deadline));
  }
  FB_CO_TRY(co_await agent_.rehearse(network, deadline));
  deps_.host.faults().reach("rehearsed");
  co_return Result<>();
}

net::Task<Result<>> QemuMachine::park(Deadline deadline) {
  if (record_.phase != MachinePhase::starting)
    co_return fail(Code::conflict,
                   "machine " + record_.id + " cannot be parked: it was woken already");
  deps_.host.faults().reach("park");
  FB_CO_TRY(co_await stop_cpus(deadline));
  deps_.host.faults().reach("parked");
  record_.phase = MachinePhase::parked;
  co_return co_await write_record();
}

net::Task<Result<>> QemuMachine::unpark(const Identity& identity, Deadline deadline) {
  if (record_.phase != MachinePhase::parked)
    co_return fail(Code::conflict, "machine " + record_.id + " is not parked");
  deps_.host.faults().reach("unpark");
  // The wake request may wait in the socket before the CPUs run: no need to wait for the monitor's
  // answer.
  FB_CO_TRY(qmp_->post("cont", {}));
  co_return co_await wake(identity, deadline);
}

net::Task<Result<>> QemuMachine::detach_network() {
  if (!record_.network) co_return Result<>();
  FB_CO_TRY(qmp_->post("netdev_del", {{"id", kNetdev}}));
  record_.network = false;
  // A host that lost its networks has nobody to ask; what is left of them is not the engine's.
  if (NetworkBackend* networks = deps_.host.config().networks) {
    auto detach = [this, networks]() { return networks->detach(record_.id); };
    FB_CO_TRY(co_await blocking(detach));
  }
  co_return co_await write_record();
}

// ------------------------------------------------------------------------------------------- save

Result<std::uint64_t> QemuMachine::submit_save_state(int fd) {
  const std::uint64_t set = next_fdset_++;
  FB_TRY_ASSIGN(const std::uint64_t added, qmp_->submit("add-fd", {{"fdset-id", set}}, fd));
  (void)added;
  return qmp_->submit("xen-save-devices-state",
                      {{"filename", "/dev/fdset/" + std::to_string(set)}, {"live", false}});
}

net::Task<Result<>> QemuMachine::freeze_and_stop(bool destroy_sockets, Deadline deadline) {
  FB_CO_TRY(co_await agent_.freeze(destroy_sockets, true, deadline));
  deps_.host.faults().reach("frozen");
  FB_CO_TRY(co_await stop_cpus(deadline));
  deps_.host.faults().reach("stopped");
  co_return Result<>();
}

net::Task<void> QemuMachine::undo_freeze(Deadline deadline) {
  // Best effort: if the guest cannot go on, its owner finds it dead or unresponsive and terminates
  // it.
  if (auto started = co_await start_cpus(deadline); started) (void)co_await agent_.thaw(deadline);
}

net::Task<Result<UniqueFd>> QemuMachine::save(const std::string& saved_path, Deadline deadline) {
  UniqueFd state(::memfd_create("firebreak-state", MFD_CLOEXEC));
  if (!state) co_return fail_errno("memfd_create");
  FB_CO_TRY_ASSIGN(UniqueFd write_end,
                   sys::open("/proc/self/fd/" + std::to_string(state.get()), O_WRONLY));
  FB_CO_TRY_ASSIGN(const std::uint64_t saving, submit_save_state(write_end.get()));

  const pid_t pid = process_.id().pid;
  const RamImage& base = snapshot_->ram();
  struct Found {
    std::uint64_t address = 0;
    std::vector<PageRun> runs;
  };
  auto find_runs = [pid, &base]() -> Result<Found> {
    Found found;
    FB_TRY_ASSIGN(found.address, find_ram_mapping(pid, base.fd(), base.size()));
    FB_TRY_ASSIGN(found.runs, dirty_runs(pid, found.address, base.size()));
    return found;
  };
  auto found = co_await blocking(find_runs);
  auto answer = co_await qmp_->answer(saving, deadline);
  if (!answer) co_return fail(answer.error(), "saving the device state");
  if (!found) co_return std::unexpected(found.error());
  deps_.host.faults().reach("state");
  FB_CO_TRY_ASSIGN(const std::string bytes, read_memfd(state.get()));
  auto write = [&]() {
    return write_saved(saved_path, pid, found->address, base.size(), snapshot_->record().ram_sha256,
                       found->runs, bytes);
  };
  auto saved = co_await blocking(write);
  deps_.host.faults().reach("saved");
  co_return saved;
}

Result<> QemuMachine::sync_directory() const {
  FB_TRY(deps_.host.faults().check("sync_directory"));
  return sys::fsync_dir(path("."));
}

// From the moment the file is called `saved`, the next server would resume it. So it keeps that
// name only if the guest never runs on, and the guest runs on only if the disk knows that it lost
// the name.
Result<> QemuMachine::name_saved() const {
  const std::string fresh = path("saved.new");
  const std::string saved = path("saved");
  if (::rename(fresh.c_str(), saved.c_str()) != 0) return fail_errno("rename to saved");
  auto synced = sync_directory();
  if (synced) return {};
  if (::rename(saved.c_str(), fresh.c_str()) == 0) {
    if (sync_directory()) return synced;
    if (::rename(fresh.c_str(), saved.c_str()) != 0) return synced;
  }
  // The disk takes no more news of the directory. The content is safe under one of the two names;
  // the machine counts as suspended, because its memory must not fall behind its disk.
  return {};
}

net::Task<Result<>> QemuMachine::write_durably(UniqueFd saved, Deadline) {
  auto sync = [this, &saved]() -> Result<> {
    FB_TRY_ASSIGN(UniqueFd disk, sys::open(record_.disks.back().path, O_RDONLY));
    // Together they share one commit of the file system's journal.
    int disk_error = 0;
    std::thread disk_sync([&] { disk_error = ::fdatasync(disk.get()) == 0 ? 0 : errno; });
    const int saved_error = ::fsync(saved.get()) == 0 ? 0 : errno;
    disk_sync.join();
    if (const int error = saved_error != 0 ? saved_error : disk_error; error != 0)
      return fail_errno("syncing the suspended machine", error);
    return name_saved();
  };
  co_return co_await blocking(sync);
}

net::Task<Result<>> QemuMachine::suspend(Deadline deadline) {
  FB_CO_TRY(check_clone("suspended"));
  FB_CO_TRY(co_await settle_layer(deadline));
  Stopwatch watch;
  auto frozen = co_await freeze_and_stop(true, deadline);
  watch.lap("freeze");
  Result<> done;
  if (!frozen) {
    done = std::unexpected(frozen.error());
  } else {
    auto saved = co_await save(path("saved.new"), deadline);
    watch.lap("save");
    done = saved ? co_await write_durably(*std::move(saved), deadline)
                 : Result<>(std::unexpected(saved.error()));
    watch.lap("sync");
  }
  if (!done) {
    ::unlink(path("saved.new").c_str());
    co_await undo_freeze(repair_deadline());
    co_return fail(done.error(), "suspending machine " + record_.id);
  }
  deps_.host.faults().reach("synced");
  agent_.close();
  qmp_->close();
  auto end = [this]() { return deps_.host.stop_process(record_, repair_deadline()); };
  auto ended = co_await blocking(end);
  watch.lap("end");
  phases_ = watch.phases();
  co_return ended;
}

// ------------------------------------------------------------------------------------------- load

net::Task<Result<>> QemuMachine::load_saved(int saved_fd, Deadline deadline) {
  UniqueFd state(::memfd_create("firebreak-state", MFD_CLOEXEC));
  if (!state) co_return fail_errno("memfd_create");
  auto read = [&]() -> Result<SavedMemory> {
    FB_TRY_ASSIGN(SavedMemory found, read_saved(saved_fd));
    FB_TRY(sys::pwrite_all(state.get(), std::as_bytes(std::span(found.state)), 0));
    return found;
  };
  FB_CO_TRY_ASSIGN(const SavedMemory saved, co_await blocking(read));
  const RamImage& base = snapshot_->ram();
  if (saved.base_sha256 != snapshot_->record().ram_sha256 || saved.ram_size != base.size())
    co_return fail(Code::corrupt, "the saved memory belongs to another snapshot");

  FB_CO_TRY(co_await qmp_->ready(deadline));
  const pid_t pid = process_.id().pid;
  auto apply = [&]() -> Result<> {
    FB_TRY_ASSIGN(const std::uint64_t address, find_ram_mapping(pid, base.fd(), base.size()));
    return apply_saved(saved_fd, saved, pid, address);
  };
  FB_CO_TRY(co_await blocking(apply));
  deps_.host.faults().reach("applied");
  FB_CO_TRY(co_await qmp_->execute("getfd", {{"fdname", "state"}}, deadline, state.get()));
  FB_CO_TRY(co_await qmp_->execute("migrate-incoming", {{"uri", "fd:state"}}, deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(const bool loading, co_await waits_for_state(deadline));
    if (!loading) co_return Result<>();
    // The load takes 2 to 3 ms; there is no event for it without another round trip.
    net::Event pause(deps_.executor);
    (void)co_await pause.wait(Deadline::in(std::chrono::microseconds(300)));
    if (deadline.passed()) co_return fail(Code::timeout, "loading the device state took too long");
  }
}

net::Task<Result<bool>> QemuMachine::waits_for_state(Deadline deadline) {
  FB_CO_TRY_ASSIGN(const json::value status, co_await qmp_->execute("query-status", {}, deadline));
  const json::value* name = status.is_object() ? status.as_object().if_contains("status") : nullptr;
  if (name == nullptr || !name->is_string())
    co_return fail(Code::guest, "the monitor's status is not understood");
  co_return name->as_string() == "inmigrate";
}

// --------------------------------------------------------------------------------------- snapshot

net::Task<Result<>> QemuMachine::snapshot(const std::string& directory, Deadline deadline) {
  if (!own_ram_) co_return fail(Code::conflict, "only a booted machine becomes a snapshot");
  Stopwatch watch;
  FB_CO_TRY(sys::mkdirs(directory, 0700));
  FB_CO_TRY(co_await agent_.freeze(true, true, deadline));
  // What a rehearsal reads from disk is then in the snapshot's page cache.
  FB_CO_TRY(co_await rehearse(false, deadline));
  FB_CO_TRY(co_await agent_.freeze(true, true, deadline));
  deps_.host.faults().reach("frozen");
  co_return co_await become_snapshot(directory, watch, deadline);
}

net::Task<Result<>> QemuMachine::snapshot_kernel(const std::string& directory, Deadline deadline) {
  Stopwatch watch;
  FB_CO_TRY(sys::mkdirs(directory, 0700));
  co_return co_await become_snapshot(directory, watch, deadline);
}

net::Task<Result<>> QemuMachine::become_snapshot(const std::string& directory, Stopwatch& watch,
                                                 Deadline deadline) {
  // What the kernel still has to do would be done, and translated, by every clone.
  net::asio::steady_timer calm(deps_.executor, kCalm);
  (void)co_await calm.async_wait(net::kNoThrow);
  FB_CO_TRY(co_await stop_cpus(deadline));
  deps_.host.faults().reach("stopped");
  watch.lap("freeze");
  FB_CO_TRY(co_await flatten(1, deadline));
  watch.lap("flatten");
  {
    FB_CO_TRY_ASSIGN(UniqueFd state,
                     sys::open(directory + "/state", O_WRONLY | O_CREAT | O_TRUNC, 0600));
    FB_CO_TRY_ASSIGN(const std::uint64_t saving, submit_save_state(state.get()));
    auto answer = co_await qmp_->answer(saving, deadline);
    if (!answer) co_return fail(answer.error(), "saving the device state");
    auto sync = [&state]() -> Result<> {
      if (::fsync(state.get()) != 0) return fail_errno("fsync of the device state");
      return {};
    };
    FB_CO_TRY(co_await blocking(sync));
  }
  watch.lap("state");
  deps_.host.faults().reach("state");
  agent_.close();
  qmp_->close();
  auto finish = [&]() -> Result<> {
    FB_TRY_ASSIGN(const std::uint64_t virtual_bytes, disk_bytes());
    FB_TRY(deps_.host.stop_process(record_, repair_deadline()));
    deps_.host.faults().reach("ended");
    FB_TRY(write_snapshot(deps_.host, directory, record_, *std::move(own_ram_), virtual_bytes));
    return deps_.host.remove(record_.id, repair_deadline());
  };
  auto finished = co_await blocking(finish);
  watch.lap("write");
  phases_ = watch.phases();
  co_return finished;
}

// -------------------------------------------------------------------------------------------- end

net::Task<Result<>> QemuMachine::terminate(Deadline deadline) {
  agent_.close();
  qmp_->close();
  deps_.host.faults().reach("terminate");
  auto remove = [this, deadline]() { return deps_.host.remove(record_.id, deadline); };
  co_return co_await blocking(remove);
}

Result<ProcessUsage> QemuMachine::usage() const {
  FB_TRY_ASSIGN(const CgroupUsage usage, deps_.host.usage(record_.id));
  return ProcessUsage{usage.cpu_usec, usage.memory_bytes};
}

bool QemuMachine::killed_for_memory() const {
  const auto usage = deps_.host.usage(record_.id);
  return usage && usage->oom_kills > 0;
}

Result<> QemuMachine::set_limits(const HostLimits& limits) {
  return deps_.host.set_limits(record_, limits);
}

Result<> QemuMachine::retry_disk() {
  return qmp_->post("cont", {});
}

net::Task<bool> QemuMachine::wait_exit(Deadline deadline) {
  auto copy = sys::dup(process_.pidfd());
  if (!copy) co_return !process_.running();
  auto watch =
      std::make_shared<net::asio::posix::stream_descriptor>(deps_.executor, copy->release());
  net::asio::steady_timer alarm(deps_.executor, deadline.at());
  alarm.async_wait([watch](boost::system::error_code ec) {
    boost::system::error_code ignored;
    if (!ec) watch->cancel(ignored);
  });
  auto [ec] =
      co_await watch->async_wait(net::asio::posix::stream_descriptor::wait_read, net::kNoThrow);
  co_return !ec;
}

}  // namespace firebreak::machine
