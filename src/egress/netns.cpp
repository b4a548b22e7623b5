#include "egress/netns.h"

#include <cerrno>

#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/vfs.h>

#include "base/sys.h"

namespace firebreak::egress {
namespace {

Result<> on_own_thread(const std::function<Result<>()>& work) {
  Result<> result;
  std::thread thread([&] { result = work(); });
  thread.join();
  return result;
}

}  // namespace

Result<UniqueFd> make_namespace(const std::string& path) {
  {
    auto file = sys::open(path, O_RDONLY | O_CREAT | O_EXCL, 0600);
    if (!file) return fail(file.error(), "pinning a network namespace");
  }
  auto made = on_own_thread([&path]() -> Result<> {
    if (::unshare(CLONE_NEWNET) != 0) return fail_errno("making a network namespace");
    if (::mount("/proc/thread-self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return fail_errno("pinning a network namespace");
    return {};
  });
  if (!made) {
    ::unlink(path.c_str());
    return std::unexpected(made.error());
  }
  auto opened = open_namespace(path);
  if (!opened) (void)remove_namespace(path);
  return opened;
}

Result<UniqueFd> open_namespace(const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_RDONLY));
  struct statfs fs{};
  if (::fstatfs(fd.get(), &fs) != 0) return fail_errno("statfs of " + path);
  // A file whose mount is gone (after a reboot) is no namespace.
  if (static_cast<unsigned long>(fs.f_type) != NSFS_MAGIC)
    return fail(Code::not_found, path + " is not a network namespace any more");
  return fd;
}

Result<> remove_namespace(const std::string& path) {
  // EINVAL: the file is there, but nothing is mounted on it.
  if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
      errno != ENOENT)
    return fail_errno("unpinning " + path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("removing " + path);
  return {};
}

Result<> in_namespace(int netns, const std::function<Result<>()>& work) {
  return on_own_thread([&]() -> Result<> {
    if (::setns(netns, CLONE_NEWNET) != 0) return fail_errno("entering a network namespace");
    return work();
  });
}

Result<UniqueFd> socket_in(int netns, int domain, int type, int protocol) {
  UniqueFd fd;
  FB_TRY(in_namespace(netns, [&]() -> Result<> {
    fd.reset(::socket(domain, type | SOCK_CLOEXEC, protocol));
    if (!fd) return fail_errno("socket");
    return {};
  }));
  return fd;
}

}  // namespace firebreak::egress
