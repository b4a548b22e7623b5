#include "guest/tenant_setup.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/spawn.h"

// Every step returns from the function with its name when it fails.
#define STEP(call, name) \
  do {                   \
    if ((call) < 0) {    \
      *what = name;      \
      return errno;      \
    }                    \
  } while (false)

namespace firebreak::guest {
namespace {

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// A piece of the agent's mount tree that is taken along into the tenant's.
struct Carried {
  const char* from;
  const char* to;
  bool optional;
};
constexpr std::array<Carried, 12> kCarried{{
    {"/dev/null", "/dev/null", false},
    {"/dev/zero", "/dev/zero", false},
    {"/dev/full", "/dev/full", false},
    {"/dev/random", "/dev/random", false},
    {"/dev/urandom", "/dev/urandom", false},
    {"/dev/tty", "/dev/tty", false},
    {"/dev/fuse", "/dev/fuse", true},  // only with all capabilities
    {"/run/identity/machine-id", "/etc/machine-id", false},
    {"/run/identity/hostname", "/etc/hostname", false},
    {"/run/identity/hosts", "/etc/hosts", false},
    {"/run/identity/resolv.conf", "/etc/resolv.conf", false},
    {"/run/identity/egress.json", "/run/firebreak/egress.json", false},
}};

constexpr std::array kMaskedFiles{"/proc/kcore",      "/proc/keys",        "/proc/key-users",
                                  "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats"};
constexpr std::array kMaskedDirs{"/proc/acpi", "/proc/scsi", "/sys/firmware"};
constexpr std::array kReadOnly{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                               "/proc/sysrq-trigger"};

int make_file(const char* path) {
  int fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  // A link into a directory that only a running system fills, as /etc/resolv.conf often is.
  if (fd < 0 && errno == ENOENT && ::unlink(path) == 0)
    fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd < 0) return -1;
  ::close(fd);
  return 0;
}

int make_dir(const char* path, mode_t mode) {
  return ::mkdir(path, mode) == 0 || errno == EEXIST ? 0 : -1;
}

int enter_cgroup(const TenantPlan& plan, const char** what) {
  // The namespace's root is where PID 1 is when it is made: the tenant's cgroup, which can hold a
  // process only until it has controllers for its children.
  STEP(::unshare(CLONE_NEWCGROUP), "cgroup namespace");
  STEP(::write(plan.member_procs, "0", 1), "enter the cgroup");
  constexpr const char* kControllers = "+cpu +memory +pids";
  STEP(::write(plan.subtree_control, kControllers, std::strlen(kControllers)),
       "cgroup controllers");
  return 0;
}

// The initial ramfs cannot be pivoted away from, so the tenant's root is moved over it; a path that
// leads up from there arrives at the moved root again.
int enter_root(const char** what) {
  for (const char* path : {"/sys", "/proc", "/dev", "/run"})
    STEP(::umount2(path, MNT_DETACH), "unmount the agent's file systems");
  STEP(::chdir(kTenantRoot), "enter the root disk");
  STEP(::mount(".", "/", nullptr, MS_MOVE, nullptr), "move the root disk");
  STEP(::chroot("."), "chroot");
  STEP(::chdir("/"), "chdir");
  return 0;
}

int mount_system(const TenantPlan& plan, const char** what) {
  STEP(make_dir("/proc", 0555), "mkdir /proc");
  STEP(::mount("proc", "/proc", "proc", kPlain, nullptr), "mount /proc");
  STEP(make_dir("/sys", 0555), "mkdir /sys");
  STEP(::mount("sysfs", "/sys", "sysfs", kPlain | MS_RDONLY, nullptr), "mount /sys");
  const unsigned long read_only = plan.all_capabilities ? 0 : MS_RDONLY;
  STEP(::mount("cgroup2", "/sys/fs/cgroup", "cgroup2", kPlain | read_only, nullptr),
       "mount /sys/fs/cgroup");
  return 0;
}

int mount_devices(const char** what) {
  STEP(make_dir("/dev", 0755), "mkdir /dev");
  STEP(::mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k"), "mount /dev");
  STEP(make_dir("/dev/pts", 0755), "mkdir /dev/pts");
  STEP(::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,ptmxmode=0666,mode=0620,gid=5"),
       "mount /dev/pts");
  STEP(make_dir("/dev/shm", 01777), "mkdir /dev/shm");
  STEP(::mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m"),
       "mount /dev/shm");
  STEP(make_dir("/dev/mqueue", 01777), "mkdir /dev/mqueue");
  STEP(::mount("mqueue", "/dev/mqueue", "mqueue", kPlain, nullptr), "mount /dev/mqueue");
  STEP(::symlink("pts/ptmx", "/dev/ptmx"), "/dev/ptmx");
  STEP(::symlink("/proc/self/fd", "/dev/fd"), "/dev/fd");
  STEP(::symlink("/proc/self/fd/0", "/dev/stdin"), "/dev/stdin");
  STEP(::symlink("/proc/self/fd/1", "/dev/stdout"), "/dev/stdout");
  STEP(::symlink("/proc/self/fd/2", "/dev/stderr"), "/dev/stderr");
  return 0;
}

// What a container hides: names of kernel state that is not the tenant's. A name this kernel lacks
// needs no hiding.
int hide_kernel(const char** what) {
  for (const char* path : kMaskedFiles) {
    if (::mount("/dev/null", path, nullptr, MS_BIND, nullptr) < 0 && errno != ENOENT)
      STEP(-1, "mask a file of /proc");
  }
  for (const char* path : kMaskedDirs) {
    if (::mount("tmpfs", path, "tmpfs", kPlain | MS_RDONLY, "size=0") < 0 && errno != ENOENT)
      STEP(-1, "mask a directory");
  }
  for (const char* path : kReadOnly) {
    if (::mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) < 0) {
      if (errno == ENOENT) continue;
      STEP(-1, "bind a part of /proc");
    }
    STEP(::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | kPlain, nullptr),
         "protect a part of /proc");
  }
  return 0;
}

int loopback_up(const char** what) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  STEP(fd, "socket");
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  STEP(::ioctl(fd, SIOCSIFFLAGS, &request), "loopback up");
  ::close(fd);
  return 0;
}

int place_carried(const std::array<int, kCarried.size()>& trees, const char** what) {
  STEP(make_dir("/etc", 0755), "mkdir /etc");
  STEP(make_dir("/run", 0755), "mkdir /run");
  STEP(make_dir("/run/firebreak", 0755), "mkdir /run/firebreak");
  for (std::size_t i = 0; i < kCarried.size(); ++i) {
    if (trees[i] < 0) continue;
    STEP(make_file(kCarried[i].to), kCarried[i].to);
    STEP(::move_mount(trees[i], "", AT_FDCWD, kCarried[i].to, MOVE_MOUNT_F_EMPTY_PATH),
         kCarried[i].to);
    ::close(trees[i]);
  }
  return 0;
}

}  // namespace

int set_up_tenant(const TenantPlan& plan, const char** what) {
  if (const int err = enter_cgroup(plan, what)) return err;
  STEP(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  std::array<int, kCarried.size()> trees{};
  for (std::size_t i = 0; i < kCarried.size(); ++i) {
    trees[i] = -1;
    if (kCarried[i].optional && !plan.all_capabilities) continue;
    trees[i] = ::open_tree(AT_FDCWD, kCarried[i].from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (!kCarried[i].optional) STEP(trees[i], kCarried[i].from);
  }
  if (const int err = enter_root(what)) return err;
  if (const int err = mount_system(plan, what)) return err;
  if (const int err = mount_devices(what)) return err;
  if (const int err = place_carried(trees, what)) return err;
  if (!plan.all_capabilities) {
    if (const int err = hide_kernel(what)) return err;
  }
  if (const int err = loopback_up(what)) return err;
  STEP(::sethostname(plan.hostname, std::strlen(plan.hostname)), "hostname");
  if (plan.all_capabilities) return 0;
  *what = "capabilities";
  return drop_bounding_set();
}

}  // namespace firebreak::guest
