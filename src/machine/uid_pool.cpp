#include "machine/uid_pool.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <sys/resource.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/inventory.h"

namespace firebreak::machine {
namespace {

// A random start spreads parallel callers and delays the reuse of a uid that was just released.
uid_t random_below(uid_t count) {
  std::uint32_t value = 0;
  sys::random_bytes(std::as_writable_bytes(std::span(&value, 1)));
  return value % count;
}

}  // namespace

bool uid_has_process(uid_t uid) {
  // One system call in place of a walk over /proc.
  errno = 0;
  return ::getpriority(PRIO_USER, uid) != -1 || errno != ESRCH;
}

Result<UidPool> UidPool::open(const std::string& data_dir, UidRange range) {
  // The largest value means "no change" to setresuid.
  if (range.first == 0 || range.count == 0 ||
      range.count > std::numeric_limits<uid_t>::max() - range.first)
    return fail(Code::invalid, "the uid range must be non-empty and must not hold 0");
  std::string dir = data_dir + "/uids";
  FB_TRY(sys::mkdirs(dir, 0700));
  return UidPool(std::move(dir), range);
}

std::string UidPool::path_of(uid_t uid) const {
  return dir_ + "/" + std::to_string(uid);
}

Result<uid_t> UidPool::lease(const std::string& owner) const {
  const uid_t start = random_below(range_.count);
  for (uid_t i = 0; i < range_.count; ++i) {
    const uid_t uid = range_.first + (start + i) % range_.count;
    if (uid_has_process(uid)) continue;
    // O_EXCL is what makes the lease exclusive, between threads and between processes.
    auto fd = sys::open(path_of(uid), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!fd) {
      if (fd.error().code == Code::conflict) continue;
      return std::unexpected(std::move(fd).error());
    }
    auto written = sys::write_all(fd->get(), owner);
    if (written && ::fsync(fd->get()) != 0) written = fail_errno("fsync " + path_of(uid));
    if (written) written = sys::fsync_dir(dir_);
    if (!written) {
      ::unlink(path_of(uid).c_str());
      return std::unexpected(std::move(written).error());
    }
    return uid;
  }
  return fail(Code::exhausted,
              "all " + std::to_string(range_.count) + " user ids for machines are leased",
              Repair{"widen the uid range"});
}

Result<> UidPool::release(uid_t uid) const {
  if (!contains(uid))
    return fail(Code::invalid, "uid " + std::to_string(uid) + " is not of this pool");
  // A zombie whose parent is not us and does not reap runs nothing: it keeps the uid from being
  // leased again, not from being given back.
  if (uid_has_process(uid) && !processes_of({.first = uid, .count = 1}).empty())
    return fail(Code::conflict, "a process still runs under uid " + std::to_string(uid));
  if (::unlink(path_of(uid).c_str()) != 0) return fail_errno("release uid " + std::to_string(uid));
  return sys::fsync_dir(dir_);
}

Result<std::vector<UidLease>> UidPool::list() const {
  FB_TRY_ASSIGN(const std::vector<std::string> names, sys::list_dir(dir_));
  std::vector<UidLease> leases;
  for (const std::string& name : names) {
    const auto uid = parse_u64(name);
    if (!uid || *uid > std::numeric_limits<uid_t>::max())
      return fail(Code::corrupt, dir_ + "/" + name + " is not a uid lease");
    auto owner = sys::read_file(path_of(static_cast<uid_t>(*uid)), 4096);
    if (!owner) {
      if (owner.error().code == Code::not_found) continue;
      return std::unexpected(std::move(owner).error());
    }
    leases.push_back({.uid = static_cast<uid_t>(*uid), .owner = *std::move(owner)});
  }
  std::ranges::sort(leases, {}, &UidLease::uid);
  return leases;
}

}  // namespace firebreak::machine
