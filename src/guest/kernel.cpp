#include "guest/kernel.h"

#include <array>
#include <cerrno>

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::guest {
namespace {

constexpr int kStepsPerTurn = 8;
// Only the data thread reads kernels.
std::array<char, 32 * 1024UL> g_scratch;  // NOLINT

Result<> set_nonblocking(int fd) {
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return fail_errno("fcntl");
  return {};
}

}  // namespace

Result<std::unique_ptr<Kernel>> Kernel::start(Reactor& reactor, ExecTable& execs,
                                              const ExecSpec& spec, std::string_view script,
                                              KernelSink& sink) {
  std::unique_ptr<Kernel> kernel(new Kernel(reactor, sink));
  // The channel is descriptor 0 of the process, which moves it away before any code runs.
  FB_TRY_ASSIGN(auto channel, sys::socketpair(SOCK_STREAM));
  FB_TRY_ASSIGN(auto out, sys::pipe());
  FB_TRY_ASSIGN(auto err, sys::pipe());
  for (const UniqueFd* ours : {&channel.first, &out.first, &err.first})
    FB_TRY(set_nonblocking(ours->get()));
  kernel->control_.fd = std::move(channel.first);
  kernel->out_.fd = std::move(out.first);
  kernel->err_.fd = std::move(err.first);
  Stdio stdio;
  stdio.child_in = std::move(channel.second);
  stdio.child_out = std::move(out.second);
  stdio.child_err = std::move(err.second);
  FB_TRY_ASSIGN(kernel->exec_, execs.create_kernel(spec, std::move(stdio)));
  kernel->exec_->set_view(kernel.get());
  if (auto watched = kernel->watch(); !watched) {
    kernel->kill();
    return std::unexpected(watched.error());
  }
  put_kernel_message(script, kernel->outgoing_);
  kernel->flush();
  return kernel;
}

Result<> Kernel::watch() {
  FB_TRY(reactor_.watch(control_.fd.get(), EPOLLIN | EPOLLOUT | EPOLLET, control_));
  FB_TRY(reactor_.watch(out_.fd.get(), EPOLLIN | EPOLLET, out_));
  return reactor_.watch(err_.fd.get(), EPOLLIN | EPOLLET, err_);
}

Kernel::~Kernel() {
  if (exec_) exec_->clear_view(this);
  for (End* end : {&control_, &out_, &err_}) {
    if (end->fd) reactor_.close(end->fd, *end);
  }
}

void Kernel::send(std::string_view code) {
  put_kernel_message(code, outgoing_);
  flush();
}

void Kernel::flush() {
  while (control_.fd && !outgoing_.empty()) {
    const ssize_t n =
        ::send(control_.fd.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // full: an event follows; broken: its end is read
    outgoing_.erase(0, static_cast<std::size_t>(n));
  }
}

void Kernel::on_end(End& end, std::uint32_t events) {
  if (&end == &control_ && (events & EPOLLOUT) != 0) flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  end.readable = true;
  if (!stalled_) pump();
}

void Kernel::on_output() {
  if (!exec_->finished() || ended_) return;
  ended_ = true;
  for (End* end : {&control_, &out_, &err_}) end->readable = true;
  // Not now: the exec is in the middle of its end.
  if (!stalled_) pump_later();
}

void Kernel::resume() {
  if (stalled_) pump_later();
}

void Kernel::pump_later() {
  reactor_.defer([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) pump();
  });
}

void Kernel::pump() {
  if (pumping_) return;  // a sink that reads at once makes room at once
  pumping_ = true;
  stalled_ = false;
  bool over = false;
  int turn = 0;
  for (; turn < kStepsPerTurn && !stalled_ && !over; ++turn) {
    const Step out = read_pipe(out_);
    const Step err = read_pipe(err_);
    const Step control = read_control();
    stalled_ = out == Step::stalled || err == Step::stalled || control == Step::stalled;
    over = out == Step::nothing && err == Step::nothing && control == Step::nothing;
  }
  pumping_ = false;
  if (over && ended_) {
    const ExecExit exit = *exec_->exit();
    return sink_.on_gone(exit);  // which may destroy this
  }
  if (turn == kStepsPerTurn && !over && !stalled_) pump_later();
}

Kernel::Step Kernel::read_pipe(End& pipe) {
  if (!pipe.fd || !pipe.readable) return Step::nothing;
  const std::size_t want = sink_.room(g_scratch.size());
  if (want == 0) return Step::stalled;
  const ssize_t n = ::read(pipe.fd.get(), g_scratch.data(), want);
  if (n < 0 && errno == EINTR) return Step::progress;
  if (n < 0 && errno == EAGAIN) {
    pipe.readable = false;
    pipe.owed = 0;
    return Step::nothing;
  }
  if (n <= 0) {
    pipe.owed = 0;
    reactor_.close(pipe.fd, pipe);
    return Step::progress;
  }
  const auto got = static_cast<std::size_t>(n);
  pipe.owed -= std::min(pipe.owed, got);
  sink_.on_output(pipe.type, {g_scratch.data(), got});
  return Step::progress;
}

Kernel::Step Kernel::read_control() {
  if (pending_) return deliver();
  if (const Step taken = take_message(); taken != Step::nothing) return taken;
  if (!control_.fd || !control_.readable) return Step::nothing;
  const ssize_t n = ::read(control_.fd.get(), g_scratch.data(), g_scratch.size());
  if (n < 0 && errno == EINTR) return Step::progress;
  if (n < 0 && errno == EAGAIN) {
    control_.readable = false;
    return Step::nothing;
  }
  if (n <= 0)
    refuse();  // without its channel it is of no use
  else
    decoder_.feed({g_scratch.data(), static_cast<std::size_t>(n)});
  return Step::progress;
}

Kernel::Step Kernel::take_message() {
  auto piece = decoder_.next();
  if (!piece) {
    if (!control_.fd) return Step::nothing;
    refuse();
    return Step::progress;
  }
  if (!*piece) return Step::nothing;
  pending_ = *std::move(piece);
  if (!pending_->first) return Step::progress;
  // What the process wrote before this message has to be seen before it.
  for (End* pipe : {&out_, &err_}) {
    int waiting = 0;
    if (pipe->fd && ::ioctl(pipe->fd.get(), FIONREAD, &waiting) == 0 && waiting > 0) {
      pipe->owed = static_cast<std::size_t>(waiting);
      pipe->readable = true;
    }
  }
  return Step::progress;
}

Kernel::Step Kernel::deliver() {
  if (out_.owed > 0 || err_.owed > 0) return Step::progress;
  const bool relayed =
      pending_->type == KernelMessage::item || pending_->type == KernelMessage::error;
  if (relayed && sink_.room(pending_->bytes.size() + 1) <= pending_->bytes.size())
    return Step::stalled;
  KernelPiece piece = *std::move(pending_);
  pending_.reset();
  sink_.on_message(std::move(piece));
  return Step::progress;
}

void Kernel::refuse() {
  reactor_.close(control_.fd, control_);
  if (!ended_) kill();
}

}  // namespace firebreak::guest
