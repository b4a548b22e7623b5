// One exec: a process of the tenant, its output ring, its stdin, its exit. Views (HTTP streams)
// come and go. Shared by the table and its views; data thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "guest/cgroups.h"
#include "guest/output_ring.h"
#include "guest/reactor.h"
#include "guest/spawn.h"
#include "wire/frames.h"

namespace firebreak::guest {

struct TerminalSize {
  std::uint16_t cols = 80;
  std::uint16_t rows = 24;
};

struct ExecSpec {
  std::string id;  // "" : the table chooses
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string cwd;   // "" : "/"
  std::string user;  // "" : root
  bool with_stdin = false;
  std::optional<TerminalSize> terminal;
  std::optional<std::chrono::milliseconds> timeout;
  Overflow overflow = Overflow::block;
  std::size_t ring_bytes = 1 << 20;
};

Result<ExecSpec> parse_exec_spec(const json::object& body);

// What the exec says wins over what the tenant says, and that over PATH, HOME and (with a terminal)
// TERM.
std::vector<std::string> build_environment(const std::map<std::string, std::string>& tenant,
                                           const ExecSpec& spec, const std::string& home);

struct ExecExit {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  bool oom = false;
};
json::object to_json(const ExecExit& exit);

class Exec;

// A reader of an exec's output, which the exec tells of news.
class ExecView {
 public:
  ExecView() = default;
  ExecView(const ExecView&) = delete;
  ExecView& operator=(const ExecView&) = delete;
  virtual ~ExecView() = default;
  virtual void on_output() = 0;    // more to read from the ring, or the exit
  virtual void on_replaced() = 0;  // another view took its place
};

// Reads one end of an exec's output. Outlives the exec when background children still hold the
// other end: what they write is then thrown away, because a closed pipe would kill them.
class OutputPipe final : public Watcher {
 public:
  OutputPipe(Reactor& reactor, UniqueFd fd, wire::FrameType type, bool terminal)
      : reactor_(reactor), fd_(std::move(fd)), type_(type), terminal_(terminal) {}
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;
  ~OutputPipe() override { reactor_.close(fd_, *this); }

  Result<> start(Exec& exec);
  void leave() { exec_ = nullptr; }
  bool at_end() const { return !fd_; }
  bool stalled() const { return stalled_; }  // the ring is full
  // Reads until empty, stalled or its turn is over.
  void read_some();
  // The process is gone: read to the very end.
  void drain() {
    hung_up_ = true;
    read_some();
  }

 private:
  void on_events(std::uint32_t events) override;

  Reactor& reactor_;
  UniqueFd fd_;
  wire::FrameType type_;
  bool terminal_;
  bool stalled_ = false;
  bool hung_up_ = false;  // no edge will follow: a short read is not the end
  Exec* exec_ = nullptr;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // for deferred turns
};

class Exec final : private Watcher {
 public:
  class Owner {
   public:
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    virtual ~Owner() = default;
    virtual void on_finished(Exec& exec) = 0;
  };
  struct Parts {
    std::string id;
    Process process;
    UniqueFd in;   // our end of stdin
    UniqueFd out;  // our end of stdout, or the terminal; none if somebody else reads it
    UniqueFd err;
    // The process's own ends of stdout and stderr, kept open until it is gone: closing them then
    // would wake the agent once for each before the exit does.
    std::vector<UniqueFd> write_ends;
    bool terminal = false;
    std::unique_ptr<Cgroup> cgroup;  // none outside of a guest
    Overflow overflow = Overflow::block;
    std::size_t ring_bytes = 0;
  };

  Exec(Reactor& reactor, RingBudget& budget, Owner& owner, Parts parts);
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;
  ~Exec() override;

  Result<> start(std::optional<std::chrono::milliseconds> timeout);

  Reactor& reactor() { return reactor_; }
  const std::string& id() const { return id_; }
  pid_t tenant_pid() const { return process_.tenant_pid; }
  int pidfd() const { return process_.pidfd.get(); }
  bool finished() const { return exit_.has_value(); }
  const std::optional<ExecExit>& exit() const { return exit_; }
  json::object status() const;

  OutputRing& ring() { return ring_; }
  // One at a time: the former one is replaced.
  void set_view(ExecView* view);
  void clear_view(const ExecView* view);
  // The view took bytes out of the ring.
  void made_room();

  Result<> signal(int number, bool group) const;
  Result<> resize(TerminalSize size) const;
  void kill_all();

  // stdin
  class StdinWaiter {
   public:
    StdinWaiter() = default;
    StdinWaiter(const StdinWaiter&) = delete;
    StdinWaiter& operator=(const StdinWaiter&) = delete;
    virtual ~StdinWaiter() = default;
    virtual void on_stdin_room() = 0;  // or it was closed
    virtual void on_stdin_replaced() = 0;
  };
  std::uint64_t stdin_offset() const { return stdin_offset_; }
  bool stdin_open() const { return static_cast<bool>(in_.fd); }
  // How much was written; 0 with stdin_open() means: wait.
  std::size_t write_stdin(std::string_view bytes);
  void end_stdin();
  void set_stdin_waiter(StdinWaiter* waiter);
  void clear_stdin_waiter(const StdinWaiter* waiter);

  // For the table, when the object goes: what must live on.
  bool idle_cgroup() const { return cgroup_ && !cgroup_->populated(); }
  std::unique_ptr<Cgroup> release_cgroup() { return std::move(cgroup_); }
  std::vector<std::unique_ptr<OutputPipe>> release_pipes();

 private:
  friend class OutputPipe;
  struct Stdin final : Watcher {
    explicit Stdin(Exec& owner) : exec(owner) {}
    void on_events(std::uint32_t) override;
    Exec& exec;
    UniqueFd fd;
    bool watched = false;
  };

  void on_events(std::uint32_t events) override;  // of the pidfd
  void on_pipe_progress();
  void retry_stalled();
  void reap();
  void drop_stdin();
  void maybe_finish(bool quiet);
  void finish();
  void on_timeout();

  Reactor& reactor_;
  Owner& owner_;
  std::string id_;
  Process process_;
  std::unique_ptr<Cgroup> cgroup_;
  OutputRing ring_;
  std::vector<std::unique_ptr<OutputPipe>> pipes_;
  std::vector<UniqueFd> write_ends_;
  Stdin in_{*this};
  bool terminal_;
  std::uint64_t stdin_offset_ = 0;
  StdinWaiter* stdin_waiter_ = nullptr;
  ExecView* view_ = nullptr;
  std::int64_t started_ms_ = 0;
  Reactor::TimerId timeout_timer_;
  Reactor::TimerId quiet_timer_;
  Reactor::Clock::time_point gone_at_;  // when the process was reaped
  bool timed_out_ = false;
  bool ended_ = false;  // the process is gone; its output may not be
  ExecExit pending_exit_;
  std::optional<ExecExit> exit_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // for deferred turns
};

}  // namespace firebreak::guest
