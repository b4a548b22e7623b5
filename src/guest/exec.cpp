#include "guest/exec.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

namespace firebreak::guest {
namespace {

using namespace std::chrono_literals;

constexpr int kReadsPerTurn = 4;
// After the process is gone, background children may still hold its output: it is over when they
// have been quiet this long, and at the latest after the second time.
constexpr auto kQuiet = 100ms;
constexpr auto kQuietAtMost = 1s;
constexpr char kEndOfTransmission = 4;

// Only the data thread reads pipes.
std::array<char, 32 * 1024UL> g_scratch;  // NOLINT

std::int64_t realtime_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

Result<> OutputPipe::start(Exec& exec) {
  exec_ = &exec;
  return reactor_.watch(fd_.get(), EPOLLIN | EPOLLET, *this);
}

void OutputPipe::on_events(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if (!stalled_) read_some();
}

void OutputPipe::read_some() {
  bool progress = false;
  stalled_ = false;
  int turn = 0;
  while (fd_ && turn < kReadsPerTurn) {
    const std::size_t want =
        exec_ != nullptr ? exec_->ring_.reserve(g_scratch.size()) : g_scratch.size();
    if (want == 0) {
      stalled_ = true;
      break;
    }
    const ssize_t n = ::read(fd_.get(), g_scratch.data(), want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    progress = true;
    if (n <= 0) {  // a terminal without its last process gives EIO
      reactor_.close(fd_, *this);
      break;
    }
    const auto got = static_cast<std::size_t>(n);
    if (exec_ != nullptr) exec_->ring_.append(type_, {g_scratch.data(), got});
    if (got < want && !terminal_ && !hung_up_) break;
    ++turn;
  }
  if (turn == kReadsPerTurn) {
    reactor_.defer([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) read_some();
    });
  }
  if (progress && exec_ != nullptr) exec_->on_pipe_progress();
}

Exec::Exec(Reactor& reactor, RingBudget& budget, Owner& owner, Parts parts)
    : reactor_(reactor),
      owner_(owner),
      id_(std::move(parts.id)),
      process_(std::move(parts.process)),
      cgroup_(std::move(parts.cgroup)),
      ring_(parts.ring_bytes, parts.overflow, budget),
      write_ends_(std::move(parts.write_ends)),
      terminal_(parts.terminal),
      started_ms_(realtime_ms()) {
  in_.fd = std::move(parts.in);
  if (parts.out) {
    pipes_.push_back(std::make_unique<OutputPipe>(reactor, std::move(parts.out),
                                                  wire::FrameType::out, terminal_));
  }
  if (parts.err) {
    pipes_.push_back(
        std::make_unique<OutputPipe>(reactor, std::move(parts.err), wire::FrameType::err, false));
  }
}

Exec::~Exec() {
  drop_stdin();
  reactor_.close(process_.pidfd, *this);
  reactor_.cancel(timeout_timer_);
  reactor_.cancel(quiet_timer_);
}

Result<> Exec::start(std::optional<std::chrono::milliseconds> timeout) {
  for (auto& pipe : pipes_) FB_TRY(pipe->start(*this));
  FB_TRY(reactor_.watch(process_.pidfd.get(), EPOLLIN | EPOLLET, *this));
  if (timeout) timeout_timer_ = reactor_.after(*timeout, [this] { on_timeout(); });
  return {};
}

json::object Exec::status() const {
  json::object object{{"id", id_},
                      {"pid", process_.tenant_pid},
                      {"running", !finished()},
                      {"started_ms", started_ms_},
                      {"offset", ring_.end()},
                      {"stdin_offset", stdin_offset_}};
  if (exit_) object["exit"] = to_json(*exit_);
  return object;
}

void Exec::on_events(std::uint32_t) {
  reap();
}

void Exec::reap() {
  siginfo_t info{};
  if (ended_ || ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.pidfd.get()),
                         &info, WEXITED | WNOHANG | __WALL) != 0)
    return;
  if (info.si_pid == 0) return;
  ended_ = true;
  gone_at_ = Reactor::Clock::now();
  reactor_.close(process_.pidfd, *this);
  reactor_.cancel(timeout_timer_);
  if (info.si_code == CLD_EXITED)
    pending_exit_.exit_code = info.si_status;
  else
    pending_exit_.signal = info.si_status;
  pending_exit_.timed_out = timed_out_;
  pending_exit_.oom = cgroup_ && cgroup_->take_oom();
  drop_stdin();
  write_ends_.clear();
  for (auto& pipe : pipes_) pipe->drain();
  maybe_finish(false);
}

void Exec::on_pipe_progress() {
  if (view_ != nullptr && ring_.end() > 0) view_->on_output();
  if (ended_) maybe_finish(false);
}

void Exec::maybe_finish(bool quiet) {
  if (!ended_ || exit_) return;
  reactor_.cancel(quiet_timer_);
  bool all_read = true;
  for (const auto& pipe : pipes_) {
    if (pipe->stalled()) return;  // made_room() comes back here
    all_read = all_read && pipe->at_end();
  }
  if (all_read || quiet || Reactor::Clock::now() > gone_at_ + kQuietAtMost) return finish();
  quiet_timer_ = reactor_.after(kQuiet, [this] { maybe_finish(true); });
}

void Exec::finish() {
  for (auto& pipe : pipes_) pipe->leave();
  exit_ = pending_exit_;
  if (view_ != nullptr) view_->on_output();
  owner_.on_finished(*this);
}

void Exec::on_timeout() {
  timeout_timer_ = {};
  timed_out_ = true;
  kill_all();
}

void Exec::set_view(ExecView* view) {
  if (ExecView* former = std::exchange(view_, view)) former->on_replaced();
}

void Exec::clear_view(const ExecView* view) {
  if (view_ == view) view_ = nullptr;
}

void Exec::made_room() {
  if (std::ranges::none_of(pipes_, [](const auto& pipe) { return pipe->stalled(); })) return;
  // Not from inside the view, which is in the middle of reading the ring.
  reactor_.defer([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) retry_stalled();
  });
}

void Exec::retry_stalled() {
  for (auto& pipe : pipes_) {
    if (pipe->stalled()) pipe->read_some();
  }
  maybe_finish(false);
}

Result<> Exec::signal(int number, bool group) const {
  if (ended_) return fail(Code::conflict, "exec " + id_ + " has ended");
  if (number < 0 || number > SIGRTMAX) return fail(Code::invalid, "no such signal");
  const long done =
      group ? ::kill(-process_.pid, number)
            : ::syscall(SYS_pidfd_send_signal, process_.pidfd.get(), number, nullptr, 0);
  if (done != 0) return fail_errno("signal");
  return {};
}

Result<> Exec::resize(TerminalSize size) const {
  if (!terminal_) return fail(Code::conflict, "exec " + id_ + " has no terminal");
  if (!in_.fd) return fail(Code::conflict, "exec " + id_ + " has ended");
  winsize window{};
  window.ws_col = size.cols;
  window.ws_row = size.rows;
  if (::ioctl(in_.fd.get(), TIOCSWINSZ, &window) != 0) return fail_errno("resize");
  return {};
}

void Exec::kill_all() {
  if (cgroup_) return cgroup_->kill();
  if (!ended_) ::kill(-process_.pid, SIGKILL);
}

void Exec::Stdin::on_events(std::uint32_t) {
  if (exec.stdin_waiter_ != nullptr) exec.stdin_waiter_->on_stdin_room();
}

std::size_t Exec::write_stdin(std::string_view bytes) {
  std::size_t written = 0;
  while (in_.fd && written < bytes.size()) {
    const ssize_t n = ::write(in_.fd.get(), bytes.data() + written, bytes.size() - written);
    if (n >= 0) {
      written += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!in_.watched)
        in_.watched = reactor_.watch(in_.fd.get(), EPOLLOUT | EPOLLET, in_).has_value();
      break;
    } else if (errno != EINTR) {
      drop_stdin();
    }
  }
  stdin_offset_ += written;
  return written;
}

void Exec::end_stdin() {
  if (!in_.fd) return;
  if (!terminal_) return drop_stdin();
  // A terminal is not closed but told; its reader sees the end of one input.
  [[maybe_unused]] const ssize_t told = ::write(in_.fd.get(), &kEndOfTransmission, 1);
}

void Exec::drop_stdin() {
  if (!in_.fd) return;
  if (in_.watched)
    reactor_.close(in_.fd, in_);
  else
    in_.fd.reset();
  if (stdin_waiter_ != nullptr) stdin_waiter_->on_stdin_room();
}

void Exec::set_stdin_waiter(StdinWaiter* waiter) {
  if (StdinWaiter* former = std::exchange(stdin_waiter_, waiter)) former->on_stdin_replaced();
}

void Exec::clear_stdin_waiter(const StdinWaiter* waiter) {
  if (stdin_waiter_ == waiter) stdin_waiter_ = nullptr;
}

std::vector<std::unique_ptr<OutputPipe>> Exec::release_pipes() {
  std::erase_if(pipes_, [](const auto& pipe) { return pipe->at_end(); });
  return std::move(pipes_);
}

}  // namespace firebreak::guest
