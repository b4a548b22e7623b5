#include "guest/boot.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/deadline.h"
#include "base/sys.h"
#include "base/text.h"
#include "guest/tenant.h"

namespace firebreak::guest {
namespace {

constexpr const char* kPortClass = "/sys/class/virtio-ports";
constexpr std::chrono::seconds kPortWait{30};

struct Mount {
  const char* type;
  const char* path;
  unsigned long flags;
  const char* options;
};
constexpr Mount kMounts[] = {
    {"devtmpfs", "/dev", MS_NOSUID | MS_NOEXEC, "mode=0755"},
    {"proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr},
    {"sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr},
    {"cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate"},
    {"tmpfs", "/run", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=1m"},
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<UniqueFd> open_port(const std::string& wanted) {
  auto entries = sys::list_dir(kPortClass);
  if (!entries) return fail(Code::not_found, "no virtio ports");
  for (const std::string& entry : *entries) {
    const std::string dir = std::string(kPortClass) + "/" + entry;
    const auto name = sys::read_file(dir + "/name");
    if (!name || trimmed(*name) != wanted) continue;
    return sys::open("/dev/" + entry, O_RDWR | O_NONBLOCK);
  }
  return fail(Code::not_found, "no port " + wanted);
}

Result<UniqueFd> wait_for_port(const std::string& name, Deadline deadline) {
  for (;;) {
    auto port = open_port(name);
    if (port || deadline.passed()) return port;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Result<> mount_agent_filesystems() {
  for (const Mount& mount : kMounts) {
    FB_TRY(sys::mkdirs(mount.path, 0755));
    if (::mount(mount.type, mount.path, mount.type, mount.flags, mount.options) != 0 &&
        errno != EBUSY)
      return fail_errno(std::string("mount ") + mount.path);
  }
  // The kernel opens a console for PID 1 only if the initramfs has one; the numbers 0 to 2 must
  // never be anything else.
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return fail_errno("open /dev/null");
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return {};
    }
  }
}

Result<> load_modules(const std::string& dir) {
  auto order = sys::read_file(dir + "/order");
  if (!order && order.error().code == Code::not_found) return {};
  if (!order) return std::unexpected(order.error());
  for (const std::string_view line : split(*order, '\n')) {
    const std::string name = trimmed(std::string(line));
    if (name.empty()) continue;
    std::string path = dir;
    path.append("/").append(name);
    FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_RDONLY));
    if (::syscall(SYS_finit_module, file.get(), "", 0) != 0 && errno != EEXIST)
      return fail_errno("module " + name);
  }
  return {};
}

Result<Ports> open_ports() {
  const Deadline deadline = Deadline::in(kPortWait);
  Ports ports;
  FB_TRY_ASSIGN(ports.ctl, wait_for_port("firebreak.ctl", deadline));
  FB_TRY_ASSIGN(ports.data, wait_for_port("firebreak.data", deadline));
  return ports;
}

Result<> make_thread_realtime() {
  sched_param param{};
  param.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) != 0)
    return fail_errno("sched_setscheduler");
  return {};
}

void run_reaper() {
  ::prctl(PR_SET_NAME, kReaperName, 0, 0, 0);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, nullptr);
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ::sigwaitinfo(&children, nullptr);
  }
}

}  // namespace firebreak::guest
