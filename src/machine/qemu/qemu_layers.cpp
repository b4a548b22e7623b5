// The disk layers of a machine: a new one on top, all in one.
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/qemu/qcow2.h"
#include "machine/qemu/qemu_machine.h"

namespace firebreak::machine {
namespace {

constexpr const char* kFlattenJob = "flatten";
constexpr std::chrono::milliseconds kJobPoll{20};
// For putting things right after a failure, whatever the caller's deadline was.
constexpr std::chrono::seconds kRepair{10};

// Under its final name only when everything of it is on the disk.
Result<> publish(const std::string& from, const std::string& to) {
  FB_TRY_ASSIGN(UniqueFd file, sys::open(from, O_RDONLY));
  if (::fsync(file.get()) != 0) return fail_errno("fsync " + from);
  if (::fchmod(file.get(), 0400) != 0) return fail_errno("chmod " + from);
  if (::rename(from.c_str(), to.c_str()) != 0) return fail_errno("rename to " + to);
  return sys::fsync_dir(to.substr(0, to.rfind('/')));
}

}  // namespace

// Clones may outlive the machine that a layer below belonged to, but never the base.
Result<std::uint64_t> QemuMachine::disk_bytes() const {
  FB_TRY_ASSIGN(UniqueFd base, sys::open(record_.disks.front().path, O_RDONLY));
  return sys::file_size(base.get());
}

// Which node the guest's disk is now. Numbers only grow while a process lives. Asked of the device:
// the list of block devices describes every layer inside the one above it.
net::Task<Result<std::uint64_t>> QemuMachine::top_node(Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      const json::value name,
      co_await qmp_->execute("qom-get", {{"path", kDiskDevice}, {"property", "drive"}}, deadline));
  if (name.is_string()) {
    if (const auto number = disk_node_level(name.as_string())) co_return *number;
  }
  co_return fail(Code::guest, "the monitor does not tell which layer the disk is");
}

net::Task<void> QemuMachine::remove_node(std::uint64_t number, Deadline deadline) {
  // What is not there need not be removed.
  (void)co_await qmp_->execute("blockdev-del", {{"node-name", disk_node(number)}}, deadline);
  (void)co_await qmp_->execute("blockdev-del", {{"node-name", file_node(number)}}, deadline);
  (void)co_await qmp_->execute("remove-fd", {{"fdset-id", disk_fdset(number)}}, deadline);
}

// Node `top` becomes read-only, with a node of `file` over it.
net::Task<Result<>> QemuMachine::overlay(std::uint64_t top, const std::string& below,
                                         const std::string& file, Deadline deadline) {
  FB_CO_TRY_ASSIGN(UniqueFd fresh, sys::open(file, O_RDWR));
  FB_CO_TRY_ASSIGN(UniqueFd read_only, sys::open(below, O_RDONLY));
  // QEMU reopens the old layer read-only, and takes the descriptor with fitting access from its
  // set.
  FB_CO_TRY(
      co_await qmp_->execute("add-fd", {{"fdset-id", disk_fdset(top)}}, deadline, read_only.get()));
  FB_CO_TRY(
      co_await qmp_->execute("add-fd", {{"fdset-id", disk_fdset(top + 1)}}, deadline, fresh.get()));
  const json::object cache{{"direct", false}, {"no-flush", true}};
  FB_CO_TRY(
      co_await qmp_->execute("blockdev-add",
                             {{"driver", "file"},
                              {"node-name", file_node(top + 1)},
                              {"filename", "/dev/fdset/" + std::to_string(disk_fdset(top + 1))},
                              {"cache", cache}},
                             deadline));
  FB_CO_TRY(co_await qmp_->execute("blockdev-add",
                                   {{"driver", "qcow2"},
                                    {"node-name", disk_node(top + 1)},
                                    {"file", file_node(top + 1)},
                                    {"backing", nullptr},
                                    {"cache", cache},
                                    {"discard", "unmap"}},
                                   deadline));
  FB_CO_TRY(co_await qmp_->execute(
      "blockdev-snapshot", {{"node", disk_node(top)}, {"overlay", disk_node(top + 1)}}, deadline));
  co_return Result<>();
}

// The layer written so far becomes immutable; the machine goes on in a new one on top of it.
net::Task<Result<>> QemuMachine::switch_to_new_layer(Deadline deadline) {
  FB_CO_TRY_ASSIGN(const std::uint64_t top, co_await top_node(deadline));
  FB_CO_TRY_ASSIGN(const std::uint64_t virtual_bytes, disk_bytes());
  // A resume numbers the nodes anew, but not the files.
  std::uint64_t name = top + 1;
  while (sys::exists(layer_path(name))) ++name;
  const DiskLayer layer{layer_path(name), DiskFormat::qcow2, 0};
  const std::string below = record_.disks.back().path;
  FB_CO_TRY(create_qcow2(layer.path, virtual_bytes));
  // Before QEMU writes into it: whoever comes after us must know of every layer.
  record_.disks.push_back(layer);
  record_.switching = top;
  Result<> done = co_await write_record();
  if (done) done = co_await overlay(top, below, layer.path, deadline);
  // If the monitor has not answered in time, it may have switched all the same.
  auto settled = co_await settle_layer(done ? deadline : Deadline::in(kRepair));
  co_return done ? settled : done;
}

net::Task<Result<>> QemuMachine::settle_layer(Deadline deadline) {
  if (record_.switching == 0) co_return Result<>();
  FB_CO_TRY_ASSIGN(const std::uint64_t top, co_await top_node(deadline));
  if (top == std::exchange(record_.switching, 0)) {
    co_await remove_node(top + 1, deadline);
    ::unlink(record_.disks.back().path.c_str());
    record_.disks.pop_back();
  }
  co_return co_await write_record();
}

net::Task<Result<>> QemuMachine::cut_layer(const std::string& path, Deadline deadline) {
  if (!record_.snapshot.empty())
    co_return fail(Code::conflict, "only a booted machine has layers to cut");
  auto cut = co_await agent_.ctl_call("POST", "/fsfreeze", {}, deadline);
  if (!cut) co_return fail(cut.error(), "freezing the file system");
  auto switched = co_await switch_to_new_layer(deadline);
  auto thawed = co_await agent_.ctl_call("POST", "/fsthaw", {}, deadline);
  if (!switched) co_return fail(switched.error(), "cutting a disk layer");
  if (!thawed) co_return fail(thawed.error(), "thawing the file system");
  DiskLayer& frozen = record_.disks[record_.disks.size() - 2];
  auto move = [&]() { return publish(frozen.path, path); };
  FB_CO_TRY(co_await blocking(move));
  frozen.path = path;
  co_return co_await write_record();
}

// The state of our one job; empty: there is none.
net::Task<Result<std::string>> QemuMachine::flatten_state(Deadline deadline) {
  FB_CO_TRY_ASSIGN(const json::value jobs, co_await qmp_->execute("query-jobs", {}, deadline));
  if (jobs.is_array() && jobs.as_array().empty()) co_return std::string();
  const json::object* job = jobs.is_array() ? jobs.as_array().front().if_object() : nullptr;
  const json::value* status = job != nullptr ? job->if_contains("status") : nullptr;
  if (status == nullptr || !status->is_string())
    co_return fail(Code::guest, "the monitor's list of jobs is not understood");
  if (status->as_string() == "concluded") {
    if (const json::value* error = job->if_contains("error"))
      co_return fail(Code::unavailable, "flattening the disk: " + json::serialize(*error));
  }
  co_return std::string(status->as_string());
}

net::Task<Result<>> QemuMachine::flatten_ended(Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string state, co_await flatten_state(deadline));
    if (state.empty() || state == "concluded") co_return Result<>();
    net::Event pause(deps_.executor);
    (void)co_await pause.wait(Deadline::in(kJobPoll));
    if (deadline.passed()) co_return fail(Code::timeout, "flattening the disk took too long");
  }
}

net::Task<Result<>> QemuMachine::stream(std::uint64_t top, std::size_t kept, Deadline deadline) {
  FB_CO_TRY(co_await qmp_->execute("block-stream",
                                   {{"job-id", kFlattenJob},
                                    {"device", disk_node(top)},
                                    {"base-node", disk_node(kept - 1)},
                                    {"auto-dismiss", false}},
                                   deadline));
  deps_.host.faults().reach("flattening");
  FB_CO_TRY(co_await flatten_ended(deadline));
  deps_.host.faults().reach("flattened");
  FB_CO_TRY(co_await qmp_->execute("job-dismiss", {{"id", kFlattenJob}}, deadline));
  co_return Result<>();
}

net::Task<void> QemuMachine::end_flatten(Deadline deadline) {
  (void)co_await qmp_->execute("job-cancel", {{"id", kFlattenJob}}, deadline);
  (void)co_await flatten_ended(deadline);
  (void)co_await qmp_->execute("job-dismiss", {{"id", kFlattenJob}}, deadline);
}

net::Task<Result<>> QemuMachine::flatten(std::size_t kept, Deadline deadline) {
  if (record_.disks.size() <= kept + 1) co_return Result<>();
  FB_CO_TRY_ASSIGN(const std::uint64_t top, co_await top_node(deadline));
  if (auto done = co_await stream(top, kept, deadline); !done) {
    co_await end_flatten(Deadline::in(kRepair));
    co_return done;
  }
  const auto first = record_.disks.begin() + static_cast<std::ptrdiff_t>(kept);
  const std::vector<DiskLayer> merged(first, record_.disks.end() - 1);
  record_.disks.erase(first, record_.disks.end() - 1);
  FB_CO_TRY(co_await write_record());
  for (std::uint64_t number = top - merged.size(); number < top; ++number)
    co_await remove_node(number, deadline);
  for (const DiskLayer& layer : merged) {
    // Not those of an image's build, which are kept for the next one.
    if (layer.path.starts_with(path(""))) ::unlink(layer.path.c_str());
  }
  co_return Result<>();
}

}  // namespace firebreak::machine
