// firebreak-holder DIRECTORY: keeps descriptor 3 (a snapshot's sealed RAM) open until it is killed,
// or the snapshot's directory is removed. It gives up everything else first, so that there is
// nothing to gain from it. Static and tiny: one runs per loaded snapshot.
#include <array>
#include <cerrno>
#include <csignal>

#include <linux/capability.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
constexpr unsigned kNobody = 65534;

bool give_up_everything() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return false;
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) return false;
  if (::syscall(SYS_setresgid, kNobody, kNobody, kNobody) != 0) return false;
  if (::syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0) return false;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
constexpr unsigned kNoticeFd = 4;

// Descriptor 4 becomes readable when the directory is gone, or with it its whole file system. It
// keeps no mount busy. A host that has no more of these leaves the holder as it is: until killed.
void watch(const char* directory) {
  ::close(kNoticeFd);
  const int fd = ::inotify_init1(IN_CLOEXEC);
  if (fd < 0) return;
  const bool watching = ::inotify_add_watch(fd, directory, IN_DELETE_SELF | IN_ONLYDIR) >= 0;
  if (watching && fd != static_cast<int>(kNoticeFd)) ::dup2(fd, kNoticeFd);
  if (!watching || fd != static_cast<int>(kNoticeFd)) ::close(fd);
}
}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "firebreak-hold", 0, 0, 0);
  if (argc > 1) watch(argv[1]);
  // Everything but the memory: standard streams included, so that no pipe of the daemon is kept
  // open.
  if (::syscall(SYS_close_range, 0U, 2U, 0U) != 0 ||
      ::syscall(SYS_close_range, kNoticeFd + 1, ~0U, 0U) != 0)
    return 1;
  if (::chdir("/") != 0 || !give_up_everything()) return 1;
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  std::array<char, 4096> notice;
  for (;;) {
    const ssize_t n = ::read(kNoticeFd, notice.data(), notice.size());
    if (n > 0) return 0;
    if (n < 0 && errno == EBADF) ::pause();
  }
}
