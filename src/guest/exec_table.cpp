#include "guest/exec_table.h"

#include <algorithm>

#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "base/rooted.h"
#include "base/sys.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kMaxRunning = 256;
constexpr std::size_t kMaxFinished = 64;
constexpr std::size_t kMaxOrphans = 256;
constexpr std::size_t kRingMemory = 64 << 20;
constexpr std::chrono::seconds kGateWait{10};
constexpr std::chrono::milliseconds kRehearsalAtMost{10'000};  // its reader may have gone
constexpr char kRehearsalMark = '#';                           // ends ids that nobody may ask for

// Only our end: the flag of the other would reach programs that do not expect it.
Result<> set_nonblocking(int fd) {
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return fail_errno("fcntl");
  return {};
}

Result<Stdio> make_terminal(int root, TerminalSize size) {
  FB_TRY_ASSIGN(UniqueFd master,
                open_below(root, "dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK, kInRoot));
  struct stat st{};
  if (::fstat(master.get(), &st) != 0) return fail_errno("stat /dev/ptmx");
  if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2))
    return fail(Code::conflict, "/dev/ptmx of the tenant is not a terminal multiplexer");
  int unlock = 0;
  if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0) return fail_errno("unlock terminal");
  UniqueFd slave(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave) return fail_errno("open terminal");
  winsize window{};
  window.ws_col = size.cols;
  window.ws_row = size.rows;
  ::ioctl(master.get(), TIOCSWINSZ, &window);
  Stdio stdio;
  FB_TRY_ASSIGN(stdio.in, sys::dup(master.get()));
  stdio.out = std::move(master);
  stdio.child_in = std::move(slave);
  return stdio;
}

}  // namespace

Command make_command(const ExecSpec& spec, const Stdio& stdio, const UserSpec& user,
                     const std::map<std::string, std::string>& env) {
  Command command;
  command.argv = spec.argv;
  command.env = build_environment(env, spec, user.home);
  command.cwd = spec.cwd.empty() ? "/" : spec.cwd;
  command.uid = user.uid;
  command.gid = user.gid;
  command.groups = user.groups;
  command.in = stdio.child_in.get();
  command.out = spec.terminal ? stdio.child_in.get() : stdio.child_out.get();
  command.err = spec.terminal ? stdio.child_in.get() : stdio.child_err.get();
  command.terminal = spec.terminal.has_value();
  return command;
}

ExecTable::ExecTable(Reactor& reactor, Spawner& spawner, TenantState& state, UniqueFd null)
    : reactor_(reactor),
      spawner_(spawner),
      state_(state),
      null_(std::move(null)),
      budget_(kRingMemory) {}

ExecTable::~ExecTable() = default;

Result<Stdio> ExecTable::make_stdio(const ExecSpec& spec, int root) const {
  if (spec.terminal) return make_terminal(root, *spec.terminal);
  Stdio stdio;
  if (spec.with_stdin) {
    FB_TRY_ASSIGN(auto in, sys::pipe());
    FB_TRY(set_nonblocking(in.second.get()));
    stdio.child_in = std::move(in.first);
    stdio.in = std::move(in.second);
  } else {
    FB_TRY_ASSIGN(stdio.child_in, sys::dup(null_.get()));
  }
  FB_TRY_ASSIGN(auto out, sys::pipe());
  FB_TRY(set_nonblocking(out.first.get()));
  FB_TRY_ASSIGN(auto err, sys::pipe());
  FB_TRY(set_nonblocking(err.first.get()));
  stdio.out = std::move(out.first);
  stdio.child_out = std::move(out.second);
  stdio.err = std::move(err.first);
  stdio.child_err = std::move(err.second);
  return stdio;
}

std::size_t ExecTable::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(
             execs_, [](const auto& entry) { return !entry.second->finished(); })) +
         removed_.size() + kernels_.size();
}

Result<std::string> ExecTable::choose_id(const ExecSpec& spec, Purpose purpose) {
  if (purpose == Purpose::app) return kAppId;
  if (purpose == Purpose::kernel) return "kernel";
  if (spec.id == kAppId) return fail(Code::invalid, "the id 'app' is the application's");
  if (spec.id.empty() || purpose == Purpose::rehearsal) {
    std::string id;
    std::uint64_t next = next_id_;
    do {
      id = "e" + std::to_string(next++);
    } while (execs_.contains(id));
    if (purpose == Purpose::rehearsal)
      id += kRehearsalMark;
    else
      next_id_ = next;
    return id;
  }
  if (execs_.contains(spec.id)) return fail(Code::conflict, "exec " + spec.id + " exists");
  return spec.id;
}

bool ExecTable::is_rehearsal(const Exec& exec) {
  return exec.id().back() == kRehearsalMark;
}

Result<UserSpec> ExecTable::user_of(const ExecSpec& spec) const {
  if (spec.user.empty()) return site_->default_user;
  return resolve_user(site_->root.get(), spec.user);
}

Result<std::unique_ptr<Cgroup>> ExecTable::cgroup_for(Purpose purpose) {
  if (!site_->cgroups) return std::unique_ptr<Cgroup>();
  if (purpose == Purpose::app && site_->app_cgroup) return std::move(site_->app_cgroup);
  return (purpose == Purpose::rehearsal ? site_->rehearsal_cgroups : site_->cgroups)->take();
}

Result<std::shared_ptr<Exec>> ExecTable::create(const ExecSpec& spec, Purpose purpose) {
  if (!site_) return fail(Code::conflict, "there is no tenant yet");
  if (running() >= kMaxRunning)
    return fail(Code::exhausted,
                "too many execs are running (" + std::to_string(kMaxRunning) + ")");
  FB_TRY_ASSIGN(const UserSpec user, user_of(spec));
  FB_TRY_ASSIGN(Stdio stdio, make_stdio(spec, site_->root.get()));
  if (spec.terminal && ::fchown(stdio.child_in.get(), user.uid, static_cast<gid_t>(-1)) != 0)
    return fail_errno("own the terminal");
  return start(spec, purpose, user, std::move(stdio));
}

Result<std::shared_ptr<Exec>> ExecTable::create_kernel(const ExecSpec& spec, Stdio stdio) {
  if (!site_) return fail(Code::conflict, "there is no tenant yet");
  FB_TRY_ASSIGN(const UserSpec user, user_of(spec));
  return start(spec, Purpose::kernel, user, std::move(stdio));
}

Result<std::shared_ptr<Exec>> ExecTable::start(const ExecSpec& spec, Purpose purpose,
                                               const UserSpec& user, Stdio stdio) {
  Exec::Parts parts;
  FB_TRY_ASSIGN(parts.id, choose_id(spec, purpose));
  Command command = make_command(spec, stdio, user, site_->env);
  if (spec.cwd.empty()) command.cwd = site_->default_cwd;

  const std::unique_lock gate(state_.gate(), kGateWait);
  if (!gate.owns_lock()) return fail(Code::unavailable, "the tenant is being frozen");
  const Phase phase = state_.phase();
  if (phase == Phase::exited) return fail(Code::conflict, "the tenant has exited");
  if (phase == Phase::frozen && purpose != Purpose::rehearsal)
    return fail(Code::conflict, "the tenant is frozen");
  if (purpose == Purpose::rehearsal && (phase != Phase::frozen || rehearsing_))
    return fail(Code::conflict, "a rehearsal needs a frozen tenant, one at a time");
  FB_TRY_ASSIGN(parts.cgroup, cgroup_for(purpose));
  const SpawnPlace place{parts.cgroup ? parts.cgroup->fd() : -1, site_->cgroup_namespace.get()};
  auto process = spawner_.start(command, place);
  if (!process) {
    give_back(parts.id, std::move(parts.cgroup));
    return std::unexpected(process.error());
  }
  parts.process = *std::move(process);
  parts.in = std::move(stdio.in);
  parts.out = std::move(stdio.out);
  parts.err = std::move(stdio.err);
  if (parts.out && parts.err) {
    parts.write_ends.push_back(std::move(stdio.child_out));
    parts.write_ends.push_back(std::move(stdio.child_err));
  }
  return enter(std::move(parts), spec, purpose);
}

Result<> ExecTable::adopt_app(Process process, Stdio stdio, std::unique_ptr<Cgroup> cgroup) {
  Exec::Parts parts;
  parts.id = kAppId;
  parts.process = std::move(process);
  parts.in = std::move(stdio.in);
  parts.out = std::move(stdio.out);
  parts.err = std::move(stdio.err);
  parts.cgroup = std::move(cgroup);
  ExecSpec spec;
  spec.overflow = Overflow::drop;
  FB_TRY(enter(std::move(parts), spec, Purpose::app));
  return {};
}

Result<std::shared_ptr<Exec>> ExecTable::enter(Exec::Parts parts, const ExecSpec& spec,
                                               Purpose purpose) {
  parts.terminal = spec.terminal.has_value();
  parts.overflow = spec.overflow;
  parts.ring_bytes = spec.ring_bytes;
  Exec::Owner& owner = *this;
  auto exec = std::make_shared<Exec>(reactor_, budget_, owner, std::move(parts));
  if (purpose == Purpose::kernel)
    kernels_.push_back(exec);
  else
    execs_[exec->id()] = exec;
  if (purpose == Purpose::rehearsal) rehearsing_ = true;
  if (purpose == Purpose::app) state_.app_started();
  auto timeout = spec.timeout;
  if (purpose == Purpose::rehearsal)
    timeout = std::min(timeout.value_or(kRehearsalAtMost), kRehearsalAtMost);
  if (auto started = exec->start(timeout); !started) {
    exec->kill_all();
    return std::unexpected(started.error());
  }
  return exec;
}

Result<std::shared_ptr<Exec>> ExecTable::find(const std::string& id) const {
  const auto at = execs_.find(id);
  if (at == execs_.end()) return fail(Code::not_found, Reason{"exec_not_found"}, "no exec " + id);
  return at->second;
}

Result<> ExecTable::remove(const std::string& id) {
  FB_TRY_ASSIGN(auto exec, find(id));
  exec->kill_all();
  execs_.erase(id);
  std::erase(finished_, id);
  if (exec->finished())
    retire(exec);
  else
    removed_.push_back(std::move(exec));
  return {};
}

void ExecTable::give_back(const std::string& id, std::unique_ptr<Cgroup> cgroup) {
  if (!cgroup || id == kAppId) return;
  (id.back() == kRehearsalMark ? site_->rehearsal_cgroups : site_->cgroups)
      ->give(std::move(cgroup));
}

void ExecTable::on_finished(Exec& exec) {
  const auto same = [&](const std::shared_ptr<Exec>& other) { return other.get() == &exec; };
  if (exec.id() == kAppId) state_.app_exited(*exec.exit());
  // Not now: the exec is in the middle of telling its view.
  if (const auto at = std::ranges::find_if(removed_, same); at != removed_.end()) {
    reactor_.defer([this, gone = *at] {
      std::erase(removed_, gone);
      retire(gone);
    });
    return;
  }
  if (const auto at = std::ranges::find_if(kernels_, same); at != kernels_.end()) {
    reactor_.defer([this, gone = *at] {
      std::erase(kernels_, gone);
      retire(gone);
    });
    return;
  }
  // Nothing of the tenant may run before the wake, so neither what a rehearsal left in the
  // background.
  if (is_rehearsal(exec) && !exec.idle_cgroup()) exec.kill_all();
  const auto at = execs_.find(exec.id());
  if (at == execs_.end() || !same(at->second)) return;
  reactor_.defer([this, done = at->second] { settle(done); });
}

// An exec has finished: its cgroup can serve the next one, and the oldest finished ones make room.
void ExecTable::settle(const std::shared_ptr<Exec>& exec) {
  if (!execs_.contains(exec->id())) return;
  if (exec->id() != kAppId) {
    finished_.push_back(exec->id());
    if (exec->idle_cgroup()) give_back(exec->id(), exec->release_cgroup());
  }
  if (is_rehearsal(*exec)) {
    finished_.pop_back();
    execs_.erase(exec->id());
    retire(exec);
  }
  while (finished_.size() > kMaxFinished || (budget_.scarce() && finished_.size() > 1)) {
    const auto oldest = execs_.extract(finished_.front());
    finished_.pop_front();
    if (!oldest.empty()) retire(oldest.mapped());
  }
}

// The object goes; what its background children hold stays.
void ExecTable::retire(const std::shared_ptr<Exec>& exec) {
  if (is_rehearsal(*exec)) rehearsing_ = false;
  for (auto& pipe : exec->release_pipes()) orphans_.push_back(std::move(pipe));
  std::erase_if(orphans_, [](const auto& pipe) { return pipe->at_end(); });
  while (orphans_.size() > kMaxOrphans) orphans_.pop_front();
  give_back(exec->id(), exec->release_cgroup());
}

}  // namespace firebreak::guest
