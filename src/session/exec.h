// Commands in a guest. A command is an object in the guest: following its output is only a view of
// it, so that a suspend, a resume or a restart of the server loses nothing. run() and stream()
// belong to their caller: when the caller leaves, the command and all it started are killed.
// start() makes one that goes on. One executor.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "session/guest.h"
#include "session/output.h"
#include "session/presence.h"

namespace firebreak::session {

struct TerminalSize {
  std::uint32_t cols = 80;
  std::uint32_t rows = 24;
};

struct Command {
  std::vector<std::string> argv;  // or
  std::string shell;
  std::map<std::string, std::string> env;
  std::string cwd;
  std::string user;
  bool open_stdin = false;  // send_input() follows
  std::optional<TerminalSize> terminal;
  std::chrono::milliseconds timeout{0};  // 0: none
};

struct CommandStatus {
  std::string id;
  std::uint64_t pid = 0;
  bool running = false;
  std::uint64_t started_ms = 0;    // of the guest's clock, Unix milliseconds
  std::uint64_t output_bytes = 0;  // printed so far
  std::uint64_t input_bytes = 0;   // taken so far
  std::optional<Ending> ending;
};

struct Started {
  std::string id;
};
using ExecEvent = std::variant<Started, Chunk, Gap, Ending>;

// The output of a command from an offset on. Destroying it leaves the command running.
class ExecEvents {
 public:
  // What comes before `begin`, counted as offset() counts, is context for the outlet only.
  ExecEvents(const Guest& guest, std::unique_ptr<machine::ExecStream> stream, Origin origin,
             std::uint64_t begin = 0);
  // nullopt after the Ending.
  net::Task<Result<std::optional<ExecEvent>>> next(Deadline deadline);
  // Bytes of output until here, counted from the command's start.
  std::uint64_t offset() const { return stream_->offset(); }
  // What the outlet has kept back, for who follows no further.
  std::vector<Chunk> cut() { return last_chunks(*out_, *err_); }

 private:
  const Guest& guest_;
  std::unique_ptr<machine::ExecStream> stream_;
  std::unique_ptr<Flow> out_;
  std::unique_ptr<Flow> err_;
  // A frame with output, or with how much is lost; nullopt: all of it was context.
  std::optional<ExecEvent> output(wire::Frame frame, Flow& flow, Stream stream);
  std::optional<ExecEvent> gap(const wire::Frame& frame);

  std::uint64_t begin_;
  std::deque<ExecEvent> waiting_;  // behind what the flows had kept until the end
};

// Takes each event of a command. An error ends the command.
using ExecSink = std::function<net::Task<Result<>>(ExecEvent)>;

inline constexpr std::size_t kMostCollected = 16UL << 20;  // of each stream

// To its end, everything in memory. More than `limit` bytes of a stream is Code::exhausted.
net::Task<Result<RunResult>> run(const Guest& guest, Command command, std::string input,
                                 Presence& caller, std::size_t limit = kMostCollected);
// To its end, event by event; Started comes first.
net::Task<Result<>> stream(const Guest& guest, Command command, std::string input, Presence& caller,
                           ExecSink sink);

// Goes on when the caller has left; its id. `input` is all its stdin gets, unless it is left open.
// Without an id the guest chooses one.
net::Task<Result<std::string>> start(const Guest& guest, Command command, std::string input,
                                     Deadline deadline, std::string id = "");
net::Task<Result<ExecEvents>> follow(const Guest& guest, std::string id, std::uint64_t offset,
                                     Deadline deadline, Origin origin = Origin::exec);
net::Task<Result<std::vector<CommandStatus>>> list_commands(const Guest& guest, Deadline deadline);
net::Task<Result<CommandStatus>> command_status(const Guest& guest, std::string id,
                                                Deadline deadline);
// Bytes before the command's input_bytes are skipped, so that a cut write can be repeated.
net::Task<Result<>> send_input(const Guest& guest, std::string id, std::uint64_t offset,
                               std::string bytes, bool end, Deadline deadline);
// To the command alone, or to all that it started.
net::Task<Result<>> send_signal(const Guest& guest, std::string id, int signal, bool group,
                                Deadline deadline);
net::Task<Result<>> resize(const Guest& guest, std::string id, TerminalSize size,
                           Deadline deadline);
// Kills all it started and forgets it.
net::Task<Result<>> remove(const Guest& guest, std::string id, Deadline deadline);

}  // namespace firebreak::session
