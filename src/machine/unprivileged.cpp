#include "machine/unprivileged.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

// What a child that failed tells us; a child that runs its program tells nothing.
struct Failure {
  std::array<char, 32> step{};
  int error = 0;
};

// Everything the child needs, made before it exists: after a fork of a program with threads only
// plain system calls are safe.
struct Plan {
  const UnprivilegedSpec& spec;
  std::vector<char*> argv;
  std::vector<char*> environment;
  int null_fd = -1;
  int report_fd = -1;
  pid_t parent = 0;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void give_up(const Plan& plan, const char* step) {
  Failure failure{.error = errno};
  std::strncpy(failure.step.data(), step, failure.step.size() - 1);
  (void)!::write(plan.report_fd, &failure, sizeof failure);
  ::_exit(127);
}

void check(const Plan& plan, const char* step, long result) {
  if (result < 0) give_up(plan, step);
}

void enter_directory(const Plan& plan) {
  check(plan, "new mounts", ::unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS));
  check(plan, "private mounts", ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  // The directory is found before /tmp is covered, as it may lie in there.
  check(plan, "enter the directory", ::chdir(plan.spec.directory.c_str()));
  check(plan, "mount /tmp", ::mount("tmp", "/tmp", "tmpfs", kFlags, "mode=0755,size=1m"));
  check(plan, "make the directory", ::mkdir(kUnprivilegedDir, 0700));
  check(plan, "bind the directory", ::mount(".", kUnprivilegedDir, nullptr, MS_BIND, nullptr));
  check(plan, "protect the directory",
        ::mount(nullptr, kUnprivilegedDir, nullptr, MS_REMOUNT | MS_BIND | kFlags, nullptr));
  check(plan, "enter the directory", ::chdir(kUnprivilegedDir));
}

void limit(const Plan& plan, __rlimit_resource_t resource, rlim_t wanted) {
  rlimit now{};
  check(plan, "read a limit", ::getrlimit(resource, &now));
  const rlim_t value = wanted < now.rlim_max ? wanted : now.rlim_max;
  const rlimit lower{.rlim_cur = value, .rlim_max = value};
  check(plan, "set a limit", ::setrlimit(resource, &lower));
}

void drop_rights(const Plan& plan) {
  limit(plan, RLIMIT_CORE, 1);
  limit(plan, RLIMIT_FSIZE, plan.spec.file_bytes);
  limit(plan, RLIMIT_NOFILE, plan.spec.open_files);
  for (unsigned capability = 0; ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; ++capability) {
  }
  ::umask(077);
  check(plan, "setgroups", ::setgroups(0, nullptr));
  // Not the library's functions, which would speak to threads that are not here.
  check(plan, "setresgid", ::syscall(SYS_setresgid, plan.spec.uid, plan.spec.uid, plan.spec.uid));
  check(plan, "setresuid", ::syscall(SYS_setresuid, plan.spec.uid, plan.spec.uid, plan.spec.uid));
  check(plan, "no_new_privs", ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  // After the uid: a change of it takes this back.
  check(plan, "death signal", ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
  if (::getppid() != plan.parent) ::_exit(127);
}

[[noreturn]] void child_main(const Plan& plan) {
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  ::setsid();
  enter_directory(plan);
  check(plan, "standard input", ::dup2(plan.null_fd, STDIN_FILENO));
  check(plan, "standard output", ::dup2(plan.spec.stdout_fd, STDOUT_FILENO));
  check(plan, "standard error", ::dup2(plan.spec.stderr_fd, STDERR_FILENO));
  check(plan, "close descriptors", ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC));
  drop_rights(plan);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  give_up(plan, "execute program");
}

}  // namespace

Result<JailedProcess> spawn_unprivileged(const UnprivilegedSpec& spec) {
  if (spec.uid == 0 || spec.argv.empty() || spec.stdout_fd < 0 || spec.stderr_fd < 0)
    return fail(Code::invalid, "a program without rights needs a uid and its descriptors");
  if (::chown(spec.directory.c_str(), spec.uid, spec.uid) != 0)
    return fail_errno("give away " + spec.directory);
  FB_TRY_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
  FB_TRY_ASSIGN(auto report, sys::pipe());
  const Plan plan{.spec = spec,
                  .argv = pointers(spec.argv),
                  .environment = pointers(spec.environment),
                  .null_fd = null.get(),
                  .report_fd = report.second.get(),
                  .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) child_main(plan);
  report.second.reset();
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  auto id = identify(pid);
  // Ends when the program runs: the pipe closes then.
  Failure failure;
  ssize_t n = 0;
  do {
    n = ::read(report.first.get(), &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  if (n == 0 && pidfd && id) return JailedProcess(*id, std::move(pidfd));
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (n == sizeof failure)
    return fail_errno("start " + spec.argv.front() + ", step '" + failure.step.data() + "'",
                      failure.error);
  return fail(Code::unavailable, spec.argv.front() + " could not be started");
}

}  // namespace firebreak::machine
