// A machine's copies: made while it stands still for a moment, written while it goes on.
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/qemu/fork_base.h"
#include "machine/qemu/qemu_machine.h"

namespace firebreak::machine {
namespace {

// Layers that forks may leave between the image's and a machine's own, before they become one.
constexpr std::size_t kMaxForkLayers = 8;

// Under our own deadline, whatever the caller's was: for putting things right after a failure.
Deadline repair_deadline() {
  return Deadline::in(std::chrono::seconds(10));
}

}  // namespace

// A suspended machine beside this one. Layers and memory are hard links: shared while anybody needs
// them.
Result<> QemuMachine::write_child(const std::string& id, const std::string& base,
                                  const std::vector<DiskLayer>& frozen_layers) {
  MachineRecord child = record_;
  child.id = id;
  child.snapshot = base;
  child.phase = MachinePhase::starting;
  child.pid = 0;
  child.start_time = 0;
  child.boot_id.clear();
  child.forked = true;
  child.disks = frozen_layers;
  const std::string directory = deps_.host.machine_dir(id);
  FB_TRY(deps_.host.prepare(child, snapshot_->record().disk_bytes));
  const std::string own = path("");
  for (std::size_t level = 0; level + 1 < child.disks.size(); ++level) {
    DiskLayer& layer = child.disks[level];
    if (!layer.path.starts_with(own)) continue;  // the image's
    const std::string link = directory + "/below-" + std::to_string(level) + ".qcow2";
    if (::link(layer.path.c_str(), link.c_str()) != 0) return fail_errno("link " + link);
    layer.path = link;
  }
  if (::link(path("forked").c_str(), (directory + "/saved").c_str()) != 0)
    return fail_errno("link saved");
  FB_TRY_ASSIGN(UniqueFd disk, sys::open(child.disks.back().path, O_RDONLY));
  if (::fsync(disk.get()) != 0) return fail_errno("syncing the child's disk");
  return sys::replace_file(directory + "/machine.json", to_json_text(child));
}

Result<> QemuMachine::write_children(const std::vector<std::string>& ids,
                                     const std::vector<DiskLayer>& frozen_layers, UniqueFd saved) {
  FB_TRY_ASSIGN(UniqueFd disk, sys::open(frozen_layers.back().path, O_RDONLY));
  if (::fsync(saved.get()) != 0 || ::fsync(disk.get()) != 0) return fail_errno("syncing the fork");
  deps_.host.faults().reach("fork.synced");
  std::string base = snapshot_->directory();
  std::vector<std::string> made;
  const auto write = [&]() -> Result<> {
    FB_TRY_ASSIGN(const std::uint64_t changed, sys::file_size(saved.get()));
    if (worth_a_base(ids.size(), changed, snapshot_->ram_bytes())) {
      base = fork_base_path(deps_.host, ids.front());
      FB_TRY(make_fork_base(deps_.host, base, *snapshot_, saved.get(), path("forked")));
      deps_.host.faults().reach("fork.base");
    }
    for (const std::string& id : ids) {
      FB_TRY(deps_.host.check_new(id));
      made.push_back(id);
      FB_TRY(write_child(id, base, frozen_layers));
    }
    return {};
  };
  auto written = write();
  if (!written) {
    for (const std::string& id : made) (void)deps_.host.remove(id, repair_deadline());
    (void)remove_unused_fork_base(deps_.host, base);
  }
  return written;
}

net::Task<Result<>> QemuMachine::fork(const std::vector<std::string>& ids, Deadline deadline) {
  FB_CO_TRY(check_clone("forked"));
  for (const std::string& id : ids) FB_CO_TRY(deps_.host.check_new(id));
  FB_CO_TRY(co_await settle_layer(deadline));
  Stopwatch watch;
  // Every read that finds nothing goes through all layers, and every one is a file that stays open.
  const std::size_t image_layers = snapshot_->record().disks.size();
  if (record_.disks.size() > image_layers + kMaxForkLayers)
    FB_CO_TRY(co_await flatten(image_layers, deadline));
  watch.lap("flatten");
  const std::vector<DiskLayer> frozen_layers = record_.disks;
  Result<UniqueFd> saved = UniqueFd();
  Result<> done = co_await freeze_and_stop(false, deadline);
  if (done) {
    saved = co_await save(path("forked"), deadline);
    if (!saved) done = std::unexpected(saved.error());
  }
  if (done) done = co_await switch_to_new_layer(deadline);
  deps_.host.faults().reach("forked");
  co_await undo_freeze(done ? deadline : repair_deadline());
  watch.lap("pause");
  if (done) {
    auto write = [&]() { return write_children(ids, frozen_layers, *std::move(saved)); };
    done = co_await blocking(write);
  }
  for (const char* const name : {"forked", "forked.new"}) ::unlink(path(name).c_str());
  watch.lap("write");
  phases_ = watch.phases();
  if (!done) co_return fail(done.error(), "forking machine " + record_.id);
  co_return Result<>();
}

}  // namespace firebreak::machine
