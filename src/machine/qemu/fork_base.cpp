#include "machine/qemu/fork_base.h"

#include <algorithm>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/hash.h"
#include "machine/qemu/base_holder.h"
#include "machine/qemu/saved_memory.h"

namespace firebreak::machine {
namespace {

constexpr std::chrono::seconds kRemoveTime{10};
constexpr std::string_view kPrefix = "fork-";

std::string snapshots_dir(const MachineHost& host) {
  return host.config().data_dir + "/snapshots/";
}

Result<RamImage> changed_copy(const RamImage& base, int saved_fd, const SavedMemory& saved) {
  FB_TRY_ASSIGN(RamImage ram, base.copy());
  void* mapped = ::mmap(nullptr, ram.size(), PROT_READ | PROT_WRITE, MAP_SHARED, ram.fd(), 0);
  if (mapped == MAP_FAILED) return fail_errno("mmap of guest RAM");
  auto applied = apply_saved(saved_fd, saved, ::getpid(), reinterpret_cast<std::uint64_t>(mapped));
  ::munmap(mapped, ram.size());
  if (!applied) return std::unexpected(applied.error());
  return ram;
}

}  // namespace

bool worth_a_base(std::size_t children, std::uint64_t changed_bytes, std::uint64_t base_bytes) {
  return children > 1 && changed_bytes * (children - 1) > base_bytes;
}

std::string fork_base_path(const MachineHost& host, const std::string& first_child) {
  return snapshots_dir(host) + std::string(kPrefix) + first_child;
}

bool is_fork_base(const std::string& directory) {
  return std::string_view(directory).substr(directory.rfind('/') + 1).starts_with(kPrefix);
}

Result<> make_fork_base(const MachineHost& host, const std::string& directory,
                        const QemuSnapshot& base, int saved_fd, const std::string& saved_path) {
  FB_TRY_ASSIGN(const SavedMemory saved, read_saved(saved_fd));
  FB_TRY_ASSIGN(RamImage ram, changed_copy(base.ram(), saved_fd, saved));
  FB_TRY(ram.seal());
  FB_TRY(sys::mkdirs(directory, 0700));
  FB_TRY(sys::replace_file(directory + "/state", saved.state));
  SnapshotRecord record = base.record();
  FB_TRY_ASSIGN(record.ram_sha256, ram.save(directory + "/ram"));
  FB_TRY_ASSIGN(record.state_sha256, sha256_file(directory + "/state"));
  FB_TRY(start_holder(host.config().holder, directory, ram));
  FB_TRY(sys::replace_file(directory + "/snapshot.json", to_json_text(record)));
  // Under another name first: the one before may be open.
  const std::string fresh = saved_path + ".new";
  FB_TRY_ASSIGN(UniqueFd unchanged,
                write_saved(fresh, ::getpid(), 0, ram.size(), record.ram_sha256, {}, saved.state));
  if (::fsync(unchanged.get()) != 0) return fail_errno("fsync " + fresh);
  if (::rename(fresh.c_str(), saved_path.c_str()) != 0) return fail_errno("rename " + fresh);
  return {};
}

Result<bool> fork_base_is_used(const MachineHost& host, const std::string& directory) {
  FB_TRY_ASSIGN(const auto ids, host.machine_ids());
  return std::ranges::any_of(ids, [&](const std::string& id) {
    const auto record = host.read_record(id);
    return record && record->snapshot == directory;
  });
}

Result<> remove_unused_fork_base(const MachineHost& host, const std::string& directory) {
  if (!is_fork_base(directory)) return {};
  // The last two machines may go at once.
  static std::mutex turn;
  const std::scoped_lock lock(turn);
  FB_TRY_ASSIGN(const bool used, fork_base_is_used(host, directory));
  if (used) return {};
  return remove_snapshot(directory, Deadline::in(kRemoveTime));
}

Result<> remove_unused_fork_bases(const MachineHost& host) {
  const auto names = sys::list_dir(snapshots_dir(host));
  if (!names) return {};  // no snapshot was made yet
  for (const std::string& name : *names)
    FB_TRY(remove_unused_fork_base(host, snapshots_dir(host) + name));
  return {};
}

}  // namespace firebreak::machine
