#include "machine/jail.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <set>

#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

// The child shares our memory until it executes the program (as vfork does: the cost does not grow
// with the daemon). So what it runs makes raw system calls only, allocates nothing, and must not be
// seen by sanitizers.
#define FB_IN_CHILD [[clang::disable_sanitizer_instrumentation, gnu::noinline]]

constexpr std::size_t kChildStackBytes = 65536;
constexpr std::size_t kKernelSignalSetBytes = 8;
constexpr int kSignals = 64;
constexpr std::chrono::seconds kReapTime{5};

struct Limit {
  int resource;
  rlimit value;
};

// Everything the child needs, laid out before it exists; `step` and `error` are its answer.
struct Plan {
  const char* root = nullptr;
  const char* proc = nullptr;
  const char* dev = nullptr;  // null: no /dev
  const char* dev_kvm = nullptr;
  dev_t kvm_device = 0;
  const char* const* argv = nullptr;
  const char* const* environment = nullptr;
  PassedFd* fds = nullptr;  // sorted by `as`; the child rewrites `fd`
  std::size_t fd_count = 0;
  const int* tasks = nullptr;
  std::size_t tasks_count = 0;
  int netns_fd = -1;
  uid_t uid = 0;
  gid_t gid = 0;
  std::array<Limit, 3> limits{};

  const char* step = nullptr;
  int error = 0;
};

FB_IN_CHILD void check(Plan& plan, const char* step, long result) {
  if (result >= 0) return;
  plan.error = errno;
  plan.step = step;
  for (;;) ::syscall(SYS_exit, 127);
}

FB_IN_CHILD void reset_signals(Plan& plan) {
  // The kernel's layout, all zero: default action for every signal.
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action{};
  for (int signal = 1; signal <= kSignals; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    check(plan, "reset signals",
          ::syscall(SYS_rt_sigaction, signal, &action, nullptr, kKernelSignalSetBytes));
  }
}

FB_IN_CHILD void join_groups(Plan& plan) {
  for (std::size_t i = 0; i < plan.tasks_count; ++i)
    check(plan, "join cgroup", ::syscall(SYS_write, plan.tasks[i], "0", 1));
  // After joining, so that the group is the root of what it sees and the host's path to it is
  // hidden.
  check(plan, "new cgroup namespace", ::syscall(SYS_unshare, CLONE_NEWCGROUP));
  if (plan.netns_fd >= 0)
    check(plan, "join network namespace", ::syscall(SYS_setns, plan.netns_fd, CLONE_NEWNET));
  check(plan, "sethostname", ::syscall(SYS_sethostname, "machine", 7));
}

FB_IN_CHILD void enter_root(Plan& plan) {
  const auto mount = [&plan] [[clang::disable_sanitizer_instrumentation]] (
                         const char* step, const char* source, const char* target, const char* type,
                         unsigned long flags, const char* data) {
    check(plan, step, ::syscall(SYS_mount, source, target, type, flags, data));
  };
  mount("make mounts private", nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  mount("bind root", plan.root, plan.root, nullptr, MS_BIND, nullptr);
  // Not subset=pid: QEMU asks /proc/sys/vm/overcommit_memory before it maps RAM without reserving
  // it.
  mount("mount proc", "proc", plan.proc, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
        nullptr);
  if (plan.dev != nullptr) {
    // A node of our own in place of a bind of the host's: its owner is the machine's uid, whatever
    // the host's mode is.
    mount("mount dev", "dev", plan.dev, "tmpfs", MS_NOSUID | MS_NOEXEC,
          "size=4k,nr_inodes=2,mode=0555");
    check(plan, "mknod kvm", ::syscall(SYS_mknod, plan.dev_kvm, S_IFCHR | 0600, plan.kvm_device));
    check(plan, "chown kvm", ::syscall(SYS_chown, plan.dev_kvm, plan.uid, plan.gid));
    mount("make dev read-only", nullptr, plan.dev, nullptr,
          MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, nullptr);
  }
  mount("make root read-only", nullptr, plan.root, nullptr,
        MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr);
  check(plan, "chdir to root", ::syscall(SYS_chdir, plan.root));
  check(plan, "pivot_root", ::syscall(SYS_pivot_root, ".", "."));
  // The old root lies over the new one now.
  check(plan, "detach old root", ::syscall(SYS_umount2, ".", MNT_DETACH));
  check(plan, "chdir to /", ::syscall(SYS_chdir, "/"));
}

FB_IN_CHILD void place_fds(Plan& plan) {
  if (plan.fd_count == 0) return;
  // First out of the way of all targets, because a source may sit on the number that another one is
  // to get.
  const int above = plan.fds[plan.fd_count - 1].as + 1;
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    const long moved = ::syscall(SYS_fcntl, plan.fds[i].fd, F_DUPFD_CLOEXEC, above);
    check(plan, "duplicate descriptor", moved);
    plan.fds[i].fd = static_cast<int>(moved);
  }
  unsigned next = 0;
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    const auto target = static_cast<unsigned>(plan.fds[i].as);
    if (target > next)
      check(plan, "close descriptors", ::syscall(SYS_close_range, next, target - 1, 0));
    check(plan, "place descriptor", ::syscall(SYS_dup3, plan.fds[i].fd, target, 0));
    next = target + 1;
  }
  check(plan, "close descriptors", ::syscall(SYS_close_range, next, ~0U, 0));
}

FB_IN_CHILD void drop_privileges(Plan& plan) {
  for (const Limit& limit : plan.limits)
    check(plan, "set resource limits",
          ::syscall(SYS_prlimit64, 0, limit.resource, &limit.value, nullptr));
  ::syscall(SYS_umask, 077);
  // QEMU asks for huge pages for translated code. Of most of one a clone would use little, and each
  // is zeroed when it is touched: without them a launch takes less time and a clone less memory.
  check(plan, "disable huge pages", ::syscall(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0));
  for (unsigned capability = 0;; ++capability) {
    const long dropped = ::syscall(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (dropped < 0 && errno == EINVAL && capability > 0)
      break;  // past the last one this kernel knows
    check(plan, "drop capability bounds", dropped);
  }
  check(plan, "setgroups", ::syscall(SYS_setgroups, 0, nullptr));
  check(plan, "setresgid", ::syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid));
  check(plan, "setresuid", ::syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid));
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  check(plan, "capset", ::syscall(SYS_capset, &header, none));
  check(plan, "no_new_privs", ::syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

FB_IN_CHILD void child_main(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  reset_signals(plan);
  check(plan, "setsid", ::syscall(SYS_setsid));
  join_groups(plan);
  enter_root(plan);
  place_fds(plan);
  drop_privileges(plan);
  const unsigned long nothing_blocked = 0;
  check(
      plan, "unblock signals",
      ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &nothing_blocked, nullptr, kKernelSignalSetBytes));
  check(plan, "execute program", ::syscall(SYS_execve, plan.argv[0], plan.argv, plan.environment));
}

// clone3 has no wrapper in libc. The child runs `entry` on its own stack and must not return.
long clone3_into(clone_args& args, void (*entry)(void*), void* argument) {
  long result = 0;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "movq %[argument], %%rdi\n\t"
      "callq *%[entry]\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone3), "D"(&args), "S"(sizeof args), [entry] "r"(entry), [argument] "r"(argument)
      : "rcx", "r11", "memory", "cc");
  return result;
}

// Handlers must not run in the child, where they would work on our memory.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

Limit lowered(int resource, rlim_t wanted) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  const rlim_t value = std::min(wanted, now.rlim_max);
  return {.resource = resource, .value = {.rlim_cur = value, .rlim_max = value}};
}

Result<> validate(const JailSpec& spec) {
  if (spec.argv.empty()) return fail(Code::invalid, "a jail needs a program");
  if (spec.uid == 0 || spec.gid == 0) return fail(Code::invalid, "a jail never runs as root");
  if (spec.stderr_fd < 0)
    return fail(Code::invalid, "a jail needs a descriptor for standard error");
  std::set<int> targets;
  for (const PassedFd& passed : spec.pass_fds) {
    if (passed.fd < 0 || passed.as < 3 || !targets.insert(passed.as).second)
      return fail(Code::invalid, "descriptors of a jail need distinct numbers from 3 on");
  }
  return {};
}

std::vector<const char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(word.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

// Changing the uid in the child marks our shared memory as not dumpable; this puts it back.
void restore_dumpable() {
  static const int before = ::prctl(PR_GET_DUMPABLE);
  ::prctl(PR_SET_DUMPABLE, before);
}

Result<JailedProcess> run(Plan& plan, clone_args args) {
  int pidfd = -1;
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kChildStackBytes);
  const auto stack_base =
      (reinterpret_cast<std::uintptr_t>(stack.get()) + 15) & ~std::uintptr_t{15};
  args.flags |= CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
                CLONE_NEWUTS;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.stack = stack_base;
  args.stack_size = kChildStackBytes - 16;

  restore_dumpable();
  long pid = 0;
  {
    const BlockedSignals blocked;
    pid = clone3_into(args, &child_main, &plan);
  }
  if (pid < 0) return fail_errno("jail step 'clone'", static_cast<int>(-pid));
  restore_dumpable();

  // A child that failed is a zombie until it is reaped, so it can still be identified.
  auto id = identify(static_cast<pid_t>(pid));
  JailedProcess process(id ? *id : ProcessId{.pid = static_cast<pid_t>(pid)}, UniqueFd(pidfd));
  if (id && plan.step == nullptr && process.running()) return process;

  FB_TRY_ASSIGN(const ProcessExit exit, process.kill_and_wait(Deadline::in(kReapTime)));
  if (plan.step != nullptr)
    return fail_errno("jail step '" + std::string(plan.step) + "'", plan.error);
  if (!id) return std::unexpected(std::move(id).error());
  return fail(Code::unavailable, "the jailed program was killed before it ran",
              "signal " + std::to_string(exit.signal.value_or(0)));
}

}  // namespace

Result<JailedProcess> spawn_jailed(const JailSpec& spec) {
  FB_TRY(validate(spec));
  FB_TRY_ASSIGN(const CgroupJoin join, spec.cgroup.open_join());
  FB_TRY_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));

  Plan plan;
  clone_args args{};
  const std::string proc = spec.runtime_root + "/proc";
  const std::string dev = spec.runtime_root + "/dev";
  const std::string dev_kvm = dev + "/kvm";
  plan.root = spec.runtime_root.c_str();
  plan.proc = proc.c_str();
  if (spec.kvm) {
    struct stat st{};
    if (::stat("/dev/kvm", &st) != 0) return fail_errno("find /dev/kvm");
    plan.dev = dev.c_str();
    plan.dev_kvm = dev_kvm.c_str();
    plan.kvm_device = st.st_rdev;
  }

  const std::vector<const char*> argv = pointers_to(spec.argv);
  plan.argv = argv.data();
  const std::vector<const char*> environment = pointers_to(spec.environment);
  plan.environment = environment.data();

  std::vector<PassedFd> fds = spec.pass_fds;
  fds.insert(fds.end(), {{null.get(), 0}, {spec.stderr_fd, 1}, {spec.stderr_fd, 2}});
  std::ranges::sort(fds, {}, &PassedFd::as);
  plan.fds = fds.data();
  plan.fd_count = fds.size();

  std::vector<int> tasks;
  tasks.reserve(join.v1_tasks.size());
  for (const UniqueFd& fd : join.v1_tasks) tasks.push_back(fd.get());
  plan.tasks = tasks.data();
  plan.tasks_count = tasks.size();
  if (join.v2_directory) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(join.v2_directory.get());
  }

  plan.netns_fd = spec.netns_fd;
  if (spec.netns_fd < 0) args.flags |= CLONE_NEWNET;
  plan.uid = spec.uid;
  plan.gid = spec.gid;
  // One byte, not zero: with zero the kernel still starts a core handler that is configured as a
  // program, and would feed it memory that a hostile guest has written.
  plan.limits = {lowered(RLIMIT_CORE, 1), lowered(RLIMIT_NOFILE, spec.limits.open_files),
                 lowered(RLIMIT_NPROC, spec.limits.threads)};
  return run(plan, args);
}

}  // namespace firebreak::machine
