#include "guest/spawn.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "guest/tenant_setup.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kStackSize = 128 * 1024UL;
constexpr rlimit kOpenFiles{1024, 1048576};

enum class Stage { setup, place, stdio, cwd, user, exec };

// Shared by the suspended caller and the child.
struct Child {
  const Command* command = nullptr;
  const TenantPlan* plan = nullptr;
  int cgroup_namespace = -1;
  bool in_guest = false;
  std::vector<const char*> argv;
  std::vector<const char*> envp;
  std::vector<std::string> programs;

  pid_t tenant_pid = 0;
  Stage stage = Stage::setup;
  const char* what = "";
  int error = 0;
};

extern "C" long fb_clone3(clone_args* args, std::size_t size, void (*entry)(void*), void* argument);

// The child returns from the system call on its own stack and calls entry(argument), which must not
// return.
asm(R"(
.text
.type fb_clone3,@function
fb_clone3:
  mov %rcx, %r8
  mov $435, %eax
  syscall
  test %rax, %rax
  jnz 1f
  xor %ebp, %ebp
  mov %r8, %rdi
  call *%rdx
  ud2
1:
  ret
.size fb_clone3,.-fb_clone3
)");

[[clang::no_sanitize("address", "thread", "undefined")]] int enter(Child& child) {
  const Command& command = *child.command;
  child.stage = Stage::place;
  if (child.cgroup_namespace >= 0 && ::setns(child.cgroup_namespace, CLONE_NEWCGROUP) != 0)
    return errno;
  child.tenant_pid = static_cast<pid_t>(::syscall(SYS_getpid));
  ::syscall(SYS_setsid);
  child.stage = Stage::stdio;
  if (::dup2(command.in, 0) < 0 || ::dup2(command.out, 1) < 0 || ::dup2(command.err, 2) < 0)
    return errno;
  if (command.terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) return errno;
  if (child.in_guest && ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &kOpenFiles, nullptr) != 0)
    return errno;
  // Before the user changes: a directory that the tenant's root may enter is enough, as with a
  // container's WORKDIR.
  child.stage = Stage::cwd;
  if (::chdir(command.cwd.c_str()) != 0) return errno;
  child.stage = Stage::user;
  // Raw calls: the library's would make every thread of the agent change user.
  if (command.uid != 0 || command.gid != 0 || !command.groups.empty()) {
    if (::syscall(SYS_setgroups, command.groups.size(), command.groups.data()) != 0 ||
        ::syscall(SYS_setgid, command.gid) != 0 || ::syscall(SYS_setuid, command.uid) != 0)
      return errno;
  }
  return 0;
}

[[clang::no_sanitize("address", "thread", "undefined")]] int execute(Child& child) {
  child.stage = Stage::exec;
  // Whoever started the agent may ignore signals, as a shell does for SIGINT of background jobs. A
  // program that inherits that cannot be interrupted.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < SIGRTMAX; ++number) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  char* const* argv = const_cast<char* const*>(child.argv.data());
  char* const* envp = const_cast<char* const*>(child.envp.data());
  if (child.command->program >= 0) {
    ::syscall(SYS_execveat, child.command->program, "", argv, envp, AT_EMPTY_PATH);
    return errno;
  }
  int refused = 0;
  for (const std::string& program : child.programs) {
    ::execve(program.c_str(), argv, envp);
    if (errno == EACCES)
      refused = EACCES;
    else if (errno != ENOENT && errno != ENOTDIR)
      return errno;
  }
  return refused != 0 ? refused : ENOENT;
}

[[clang::no_sanitize("address", "thread", "undefined")]] void child_main(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  if (child.plan != nullptr) child.error = set_up_tenant(*child.plan, &child.what);
  if (child.error == 0) child.error = enter(child);
  if (child.error == 0) child.error = execute(child);
  for (;;) ::syscall(SYS_exit_group, 127);
}

Error explain(const Child& child) {
  const Command& command = *child.command;
  const std::string why = std::strerror(child.error);
  switch (child.stage) {
    case Stage::setup:
      return {Code::internal, "making the tenant: " + std::string(child.what) + ": " + why, {}};
    case Stage::cwd:
      return {Code::invalid, "cannot enter directory " + command.cwd + ": " + why, {}};
    case Stage::exec: {
      const std::string program = command.argv.empty() ? "" : command.argv.front();
      if (child.error == ENOENT || child.error == ENOTDIR)
        return fail(Code::not_found, Reason{"no_such_program"}, "no such program: " + program)
            .error();
      if (child.error == EACCES || child.error == EPERM)
        return fail(Code::denied, Reason{"not_executable"}, "not executable: " + program).error();
      if (child.error == E2BIG)
        return {Code::invalid, "arguments and environment are too long", {}};
      if (child.error == ENOMEM || child.error == EAGAIN)
        return {Code::exhausted, "cannot start " + program + ": " + why, {}};
      return fail(Code::invalid, Reason{"not_executable"}, "cannot execute " + program + ": " + why)
          .error();
    }
    case Stage::place:
    case Stage::stdio:
    case Stage::user:
      break;
  }
  return {Code::internal, "cannot start a process: " + why, {}};
}

}  // namespace

int drop_bounding_set() {
  constexpr std::uint64_t kKept =
      1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER | 1ULL << CAP_FSETID |
      1ULL << CAP_KILL | 1ULL << CAP_SETGID | 1ULL << CAP_SETUID | 1ULL << CAP_SETPCAP |
      1ULL << CAP_NET_BIND_SERVICE | 1ULL << CAP_NET_RAW | 1ULL << CAP_SYS_CHROOT |
      1ULL << CAP_MKNOD | 1ULL << CAP_AUDIT_WRITE | 1ULL << CAP_SETFCAP;
  for (unsigned cap = 0; cap < 64; ++cap) {
    if ((kKept >> cap & 1) != 0) continue;
    // The first number the kernel does not know ends the list.
    if (::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) return errno == EINVAL ? 0 : errno;
  }
  return 0;
}

std::vector<std::string> program_candidates(const std::string& program,
                                            std::span<const std::string> env) {
  if (program.empty()) return {};
  if (program.find('/') != std::string::npos) return {program};
  std::string_view path;
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> candidates;
  for (const std::string_view dir : split(path, ':')) {
    std::string file(dir.empty() ? "." : dir);
    file.append("/").append(program);
    candidates.push_back(std::move(file));
  }
  return candidates;
}

Result<std::unique_ptr<Spawner>> Spawner::create() {
  std::unique_ptr<Spawner> spawner(new Spawner());
  void* stack = ::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return fail_errno("stack of a child");
  spawner->stack_ = stack;
  return spawner;
}

Spawner::~Spawner() {
  if (stack_ != nullptr) ::munmap(stack_, kStackSize);
}

Result<Process> Spawner::start(const Command& command, const SpawnPlace& place) {
  return run(command, place, nullptr);
}

Result<Process> Spawner::start_tenant(const Command& command, const SpawnPlace& place,
                                      const TenantPlan& plan) {
  return run(command, place, &plan);
}

Result<Process> Spawner::run(const Command& command, const SpawnPlace& place,
                             const TenantPlan* plan) {
  Child child;
  child.command = &command;
  child.plan = plan;
  child.cgroup_namespace = place.cgroup_namespace;
  child.in_guest = place.cgroup >= 0;
  child.argv.reserve(command.argv.size() + 1);
  for (const std::string& word : command.argv) child.argv.push_back(word.c_str());
  child.argv.push_back(nullptr);
  child.envp.reserve(command.env.size() + 1);
  for (const std::string& word : command.env) child.envp.push_back(word.c_str());
  child.envp.push_back(nullptr);
  if (command.program < 0) {
    child.programs =
        program_candidates(command.argv.empty() ? "" : command.argv.front(), command.env);
  }

  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
  if (plan != nullptr) args.flags |= CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC;
  if (place.cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(place.cgroup);
  }
  args.pidfd = reinterpret_cast<std::uint64_t>(&child_pidfd_);
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uint64_t>(stack_);
  args.stack_size = kStackSize;

  ++started_;
  const long pid = fb_clone3(&args, sizeof args, &child_main, &child);
  UniqueFd pidfd;
  {
    const std::scoped_lock lock(mutex_);
    ++finished_;
    if (pid > 0) pidfd.reset(std::exchange(child_pidfd_, -1));
  }
  if (pid < 0) {
    if (-pid == ENOMEM) return fail(Code::conflict, "the tenant has exited");
    return fail_errno("clone", static_cast<int>(-pid));
  }
  if (child.error != 0 || killed_.exchange(false)) {
    siginfo_t info{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info,
             WEXITED | __WALL);
    if (child.error == 0)
      return fail(Code::unavailable, "the program could not be started in time");
    return std::unexpected(explain(child));
  }
  return Process{static_cast<pid_t>(pid), child.tenant_pid, std::move(pidfd)};
}

void Spawner::kill_stuck_child() {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t started = started_;
  if (started == finished_ || started != suspect_) {
    suspect_ = started;
    return;
  }
  killed_ = true;
  ::syscall(SYS_pidfd_send_signal, child_pidfd_, SIGKILL, nullptr, 0);
}

}  // namespace firebreak::guest
