// Typed calls to the agent in a guest (docs/agent-protocol.md). Answers come from a hostile guest
// and are checked. Owned by its machine; one executor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "net/channel.h"
#include "wire/frames.h"

namespace firebreak::machine {

struct AppSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string cwd = "/";
  std::string user = "root";
};

struct TenantSpec {
  bool app_is_pid1 = false;  // otherwise our reaper is
  std::optional<AppSpec> app;
  bool all_capabilities = false;
  std::string user;  // of execs that name none; empty: root
  std::string cwd;   // likewise; empty: /
  std::string hostname = "firebreak";
  std::map<std::string, std::string> env;
  bool network = false;  // it has the card
};

struct ExecSpec {
  std::vector<std::string> argv;  // or
  std::string shell;
  std::map<std::string, std::string> env;
  std::string cwd;
  std::string user;
  bool with_stdin = false;
  struct Pty {
    std::uint32_t cols = 80;
    std::uint32_t rows = 24;
  };
  std::optional<Pty> pty;
  std::uint64_t timeout_ms = 0;
  bool drop_on_overflow = false;
  std::uint64_t ring_bytes = 0;
  std::string id;
};

struct ExecExit {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  bool oom = false;
};

// The output of an exec, from an offset on. Destroying it leaves the exec running; re-attach at
// offset().
class ExecStream {
 public:
  explicit ExecStream(std::unique_ptr<net::ChannelStream> stream, std::uint64_t offset)
      : stream_(std::move(stream)), offset_(offset) {}
  // The next frame; nullopt after the exit frame.
  net::Task<Result<std::optional<wire::Frame>>> next(Deadline deadline);
  // Output bytes received so far, counted from the start of the exec.
  std::uint64_t offset() const { return offset_; }

 private:
  std::unique_ptr<net::ChannelStream> stream_;
  wire::FrameDecoder decoder_;
  std::uint64_t offset_;
};

struct ExecResult {
  std::string id;
  std::string out;
  std::string err;
  ExecExit exit;
};

struct ContextSpec {
  std::string language;
  std::map<std::string, std::string> env;
  std::string cwd;
  std::string user;
  std::string id;
  std::vector<std::string> modules;  // loaded before it is ready
};

struct ContextStatus {
  std::string id;
  std::string language;
  std::string state;  // starting, idle, busy, dead
  std::uint64_t execution_count = 0;
  std::uint64_t restarts = 0;
  std::string run;  // the last one; "" before the first
};

struct RunDone {
  std::string status;  // ok, error, interrupted, timeout, died
  std::uint64_t execution_count = 0;
  std::uint64_t duration_ms = 0;
  std::optional<ExecExit> exit;  // of an interpreter that died
};

// Where a reader of a run is: enough to go on after its stream was cut.
struct RunPosition {
  std::string context;
  std::string run;  // known after the first frame
  std::uint64_t offset = 0;
  std::string parts;  // of an item that is not complete
};

// The frames of a run. Destroying it leaves the run going on; attach_run(position()) takes it up.
class RunStream {
 public:
  RunStream(std::unique_ptr<net::ChannelStream> stream, RunPosition position)
      : stream_(std::move(stream)), position_(std::move(position)) {}
  // The next frame, items and errors whole; nullopt after the `done` frame.
  net::Task<Result<std::optional<wire::Frame>>> next(Deadline deadline);
  const RunPosition& position() const { return position_; }
  // What the run found, known after the first frame: "fresh", "kept" or "restarted"; "" when the
  // agent is an older one.
  const std::string& state() const { return state_; }

 private:
  // False: it was a part, which is kept.
  Result<bool> take(wire::Frame& frame);

  std::unique_ptr<net::ChannelStream> stream_;
  wire::FrameDecoder decoder_;
  RunPosition position_;
  std::string state_;
};

// What the guest mounts as the tenant's root.
struct GuestRoot {
  std::string device;
  std::string fstype;
};

struct AgentHealth {
  std::uint64_t protocol = 0;
  std::string tenant;
  std::uint64_t generation = 0;
  bool app_running = false;
};

class AgentClient {
 public:
  AgentClient(std::shared_ptr<net::Channel> ctl, std::shared_ptr<net::Channel> data)
      : ctl_(std::move(ctl)), data_(std::move(data)) {}

  net::Task<Result<AgentHealth>> health(Deadline deadline);
  net::Task<Result<>> start_tenant(const TenantSpec& spec, const GuestRoot& root,
                                   Deadline deadline);
  struct Wake {
    std::string hostname;
    std::string machine_id;
    std::uint64_t generation = 0;
    bool thaw = true;
    std::optional<bool> network;  // whether the tenant has the card from now on
    json::object metadata;        // what the tenant reads about itself; empty: nothing
  };
  // Adds the time and fresh entropy itself.
  net::Task<Result<>> wake(const Wake& wake, Deadline deadline);
  // Gives the card to the tenant, or takes it away, while it runs.
  net::Task<Result<>> set_network(bool network, Deadline deadline);
  // Other metadata while it runs. It is remembered, and given again by thaw(): a freeze ends it.
  net::Task<Result<>> set_metadata(json::object metadata, Deadline deadline);
  // What the tenant reads in /run/firebreak/egress.json.
  net::Task<Result<>> set_egress_summary(std::string text, Deadline deadline);
  // The wake path without a change, and throw-away execs over the data port; the tenant is frozen
  // and sees nothing of it. `network`: afterwards the card is where a wake with a network has it.
  net::Task<Result<>> rehearse(bool network, Deadline deadline);
  // One throw-away exec that gets `input` and runs to its end: what an image is for can be
  // rehearsed as well. A program that the image lacks is no error.
  net::Task<Result<>> rehearse_exec(const ExecSpec& spec, std::string_view input,
                                    Deadline deadline);
  // Returns how many outside sockets were destroyed.
  net::Task<Result<std::uint64_t>> freeze(bool destroy_sockets, bool sync, Deadline deadline);
  // Adds the time: a stopped machine's clock stands still.
  net::Task<Result<>> thaw(Deadline deadline);

  // Runs to the end and collects at most `limit` bytes of each stream (more is Code::exhausted).
  net::Task<Result<ExecResult>> run(const ExecSpec& spec, Deadline deadline,
                                    std::size_t limit = 16 << 20);
  net::Task<Result<std::string>> start_exec(const ExecSpec& spec, Deadline deadline);  // id
  // Starts it and follows its output with one call; for one without stdin.
  net::Task<Result<std::unique_ptr<ExecStream>>> start_attached(const ExecSpec& spec,
                                                                Deadline deadline);
  net::Task<Result<std::unique_ptr<ExecStream>>> exec_output(const std::string& id,
                                                             std::uint64_t offset,
                                                             Deadline deadline);
  net::Task<Result<>> exec_stdin(const std::string& id, std::uint64_t offset,
                                 std::string_view bytes, bool eof, Deadline deadline);
  net::Task<Result<>> signal_exec(const std::string& id, int signal, Deadline deadline);

  // Returns when the interpreter is ready.
  net::Task<Result<ContextStatus>> create_context(const ContextSpec& spec, Deadline deadline);
  net::Task<Result<ContextStatus>> context(const std::string& id, Deadline deadline);
  net::Task<Result<std::vector<ContextStatus>>> contexts(Deadline deadline);
  // One run at a time: Code::conflict while another goes on. `timeout_ms` 0: none.
  net::Task<Result<std::unique_ptr<RunStream>>> run_context(const std::string& id,
                                                            std::string_view code,
                                                            std::uint64_t timeout_ms,
                                                            Deadline deadline);
  net::Task<Result<std::unique_ptr<RunStream>>> attach_run(RunPosition position, Deadline deadline);
  // False: nothing was running.
  net::Task<Result<bool>> interrupt_context(const std::string& id, Deadline deadline);
  // False: that run does not go on; what runs instead is left alone.
  net::Task<Result<bool>> interrupt_run(const std::string& id, const std::string& run,
                                        Deadline deadline);
  // Its state is lost, its id stays.
  net::Task<Result<ContextStatus>> restart_context(const std::string& id, Deadline deadline);
  net::Task<Result<>> delete_context(const std::string& id, Deadline deadline);

  net::Task<Result<std::string>> read_file(const std::string& path, Deadline deadline,
                                           std::size_t limit = 16 << 20);
  net::Task<Result<>> write_file(const std::string& path, std::string_view content,
                                 Deadline deadline);

  // A call that has no typed form here: the body must be a JSON object when the status is 2xx.
  net::Task<Result<json::object>> ctl_call(std::string method, std::string path,
                                           const json::object& body, Deadline deadline);
  net::Task<Result<json::object>> data_call(std::string method, std::string path,
                                            const json::object& body, Deadline deadline);
  // A raw stream on the data port (files, tar, tunnel).
  Result<std::unique_ptr<net::ChannelStream>> data_stream(std::string method, std::string path,
                                                          bool end);

  net::Channel& ctl() { return *ctl_; }
  net::Channel& data() { return *data_; }
  void close();

 private:
  net::Task<Result<std::unique_ptr<ExecStream>>> attach_at(std::string path, std::string spec,
                                                           Deadline deadline);
  net::Task<Result<ExecResult>> run_at(std::string path, std::string spec, Deadline deadline,
                                       std::size_t limit);

  std::shared_ptr<net::Channel> ctl_;
  std::shared_ptr<net::Channel> data_;
  json::object metadata_;  // as the tenant has it
};

// The agent's error body as our error; shared with streamed calls.
Error agent_error(const net::Reply& reply);
Result<ExecExit> parse_exit(std::string_view payload);
Result<RunDone> parse_done(std::string_view payload);
// The head of a streamed call, or the agent's error.
net::Task<Result<net::Reply>> expect_head(net::ChannelStream& stream, Deadline deadline);
net::Task<Result<>> expect_ok(net::ChannelStream& stream, Deadline deadline);

}  // namespace firebreak::machine
