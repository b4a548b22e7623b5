// firebreak-holder: keeps descriptor 3 (a snapshot's sealed RAM) open until it is killed. It gives
// up everything else first, so that there is nothing to gain from it. Static and tiny: one runs per
// loaded snapshot.
#include <csignal>

#include <linux/capability.h>
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
}  // namespace

int main() {
  ::prctl(PR_SET_NAME, "firebreak-hold", 0, 0, 0);
  // Everything but the memory: standard streams included, so that no pipe of the daemon is kept
  // open.
  if (::syscall(SYS_close_range, 0U, 2U, 0U) != 0 || ::syscall(SYS_close_range, 4U, ~0U, 0U) != 0)
    return 1;
  if (::chdir("/") != 0 || !give_up_everything()) return 1;
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  for (;;) ::pause();
}
