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

// The layer written so far becomes immutable; the machine goes on in a new one on top of it.
net::Task<Result<>> QemuMachine::switch_to_new_layer(Deadline deadline) {
  const std::size_t level = record_.disks.size();
  const std::string file_node = "file" + std::to_string(level);
  const DiskLayer layer{path("disk-" + std::to_string(level) + ".qcow2"), DiskFormat::qcow2, 0};
  FB_CO_TRY_ASSIGN(const std::uint64_t virtual_bytes, disk_bytes());
  FB_CO_TRY(create_qcow2(layer.path, virtual_bytes));
  FB_CO_TRY_ASSIGN(UniqueFd fresh, sys::open(layer.path, O_RDWR));
  FB_CO_TRY_ASSIGN(UniqueFd read_only, sys::open(record_.disks.back().path, O_RDONLY));
  // QEMU reopens the old layer read-only, and takes the descriptor with fitting access from its
  // set.
  FB_CO_TRY(co_await qmp_->execute("add-fd", {{"fdset-id", level}}, deadline, read_only.get()));
  FB_CO_TRY(co_await qmp_->execute("add-fd", {{"fdset-id", level + 1}}, deadline, fresh.get()));
  const json::object cache{{"direct", false}, {"no-flush", true}};
  FB_CO_TRY(co_await qmp_->execute("blockdev-add",
                                   {{"driver", "file"},
                                    {"node-name", file_node},
                                    {"filename", "/dev/fdset/" + std::to_string(level + 1)},
                                    {"cache", cache}},
                                   deadline));
  FB_CO_TRY(co_await qmp_->execute("blockdev-add",
                                   {{"driver", "qcow2"},
                                    {"node-name", disk_node(level)},
                                    {"file", file_node},
                                    {"backing", nullptr},
                                    {"cache", cache},
                                    {"discard", "unmap"}},
                                   deadline));
  FB_CO_TRY(co_await qmp_->execute("blockdev-snapshot",
                                   {{"node", disk_node(level - 1)}, {"overlay", disk_node(level)}},
                                   deadline));
  record_.disks.push_back(layer);
  co_return deps_.host.write_record(record_);
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
  co_return deps_.host.write_record(record_);
}

net::Task<Result<>> QemuMachine::flatten(Deadline deadline) {
  if (record_.disks.size() <= 2) co_return Result<>();
  const std::string top = disk_node(record_.disks.size() - 1);
  FB_CO_TRY(co_await qmp_->execute("block-stream",
                                   {{"job-id", kFlattenJob},
                                    {"device", top},
                                    {"base-node", disk_node(0)},
                                    {"auto-dismiss", false}},
                                   deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(const json::value jobs, co_await qmp_->execute("query-jobs", {}, deadline));
    const json::object* job =
        jobs.is_array() && !jobs.as_array().empty() ? jobs.as_array().front().if_object() : nullptr;
    const json::value* status = job != nullptr ? job->if_contains("status") : nullptr;
    if (status == nullptr || !status->is_string())
      co_return fail(Code::guest, "the monitor's list of jobs is not understood");
    if (status->as_string() == "concluded") {
      if (const json::value* error = job->if_contains("error"))
        co_return fail(Code::unavailable, "flattening the disk: " + json::serialize(*error));
      break;
    }
    net::Event pause(deps_.executor);
    (void)co_await pause.wait(Deadline::in(kJobPoll));
    if (deadline.passed()) co_return fail(Code::timeout, "flattening the disk took too long");
  }
  FB_CO_TRY(co_await qmp_->execute("job-dismiss", {{"id", kFlattenJob}}, deadline));
  record_.disks = {record_.disks.front(), record_.disks.back()};
  co_return deps_.host.write_record(record_);
}

}  // namespace firebreak::machine
