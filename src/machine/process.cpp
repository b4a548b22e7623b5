#include "machine/process.h"

#include <cerrno>
#include <csignal>
#include <string>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

struct Stat {
  char state = '?';
  std::uint64_t start_time = 0;
};

Result<Stat> read_stat(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path, 4096));
  // The program chooses its own name, which may hold spaces and parentheses: only what follows the
  // last ')' is safe to split.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size())
    return fail(Code::internal, path + " has an unknown format");
  const auto fields = split(std::string_view(text).substr(name_end + 2), ' ');
  constexpr std::size_t kStateField = 3;
  constexpr std::size_t kStartTimeField = 22;
  if (fields.size() <= kStartTimeField - kStateField || fields[0].size() != 1)
    return fail(Code::internal, path + " has an unknown format");
  const auto start_time = parse_u64(fields[kStartTimeField - kStateField]);
  if (!start_time) return fail(Code::internal, path + " has an unknown format");
  return Stat{.state = fields[0][0], .start_time = *start_time};
}

bool has_ended(const Stat& stat) {
  return stat.state == 'Z' || stat.state == 'X';
}

}  // namespace

// Read each time: processes are ended also by what is destroyed last, after any value kept here.
std::string current_boot_id() {
  const auto text = sys::read_file("/proc/sys/kernel/random/boot_id", 64);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

Result<ProcessId> identify(pid_t pid) {
  FB_TRY_ASSIGN(const Stat stat, read_stat(pid));
  return ProcessId{.pid = pid, .start_time = stat.start_time, .boot_id = current_boot_id()};
}

bool is_alive(const ProcessId& id) {
  if (!id.boot_id.empty() && id.boot_id != current_boot_id()) return false;
  const auto stat = read_stat(id.pid);
  return stat && stat->start_time == id.start_time && !has_ended(*stat);
}

bool JailedProcess::running() const {
  pollfd ready{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) == 0;
}

Result<> JailedProcess::kill() const {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) == 0 || errno == ESRCH)
    return {};
  return fail_errno("kill process " + std::to_string(id_.pid));
}

Result<ProcessExit> JailedProcess::wait(Deadline deadline) const {
  for (;;) {
    pollfd ready{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    const int n = ::poll(&ready, 1, static_cast<int>(deadline.left().count()));
    if (n > 0) break;
    if (n < 0 && errno != EINTR) return fail_errno("wait for process " + std::to_string(id_.pid));
    if (deadline.passed())
      return fail(Code::timeout, "process " + std::to_string(id_.pid) + " has not ended in time");
  }
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0) {
    if (errno == ECHILD) return ProcessExit{};
    return fail_errno("reap process " + std::to_string(id_.pid));
  }
  if (info.si_code == CLD_EXITED) return ProcessExit{.code = info.si_status, .signal = {}};
  return ProcessExit{.code = {}, .signal = info.si_status};
}

Result<ProcessExit> JailedProcess::kill_and_wait(Deadline deadline) const {
  FB_TRY(kill());
  return wait(deadline);
}

Result<JailedProcess> adopt(const ProcessId& id) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));
  if (!pidfd) return fail_errno("adopt process " + std::to_string(id.pid));
  // Checked after opening: from here on the descriptor cannot come to mean another process.
  if (!is_alive(id))
    return fail(Code::not_found, "process " + std::to_string(id.pid) + " has ended");
  return JailedProcess(id, std::move(pidfd));
}

}  // namespace firebreak::machine
