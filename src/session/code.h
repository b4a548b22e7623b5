// Code in contexts: interpreters in a guest that keep their state from one run to the next. A run
// belongs to its caller: when the caller leaves, the run is interrupted and the context stays. One
// executor.
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

struct NewContext {
  std::string language;  // python, bash, node
  std::map<std::string, std::string> env;
  std::string cwd;
  std::string user;
  std::string id;  // empty: chosen by the guest
};

struct Context {
  std::string id;
  std::string language;
  std::string state;  // starting, idle, busy, dead
  std::uint64_t execution_count = 0;
  std::uint64_t restarts = 0;
  std::string last_run;  // empty before the first
};

struct CodeStarted {
  std::string run;
  // What the run found: "fresh", "kept", or "restarted" when the variables of earlier runs are
  // lost; empty when the agent is too old to tell.
  std::string state;
};
// What the code raised.
struct CodeError {
  std::string name;
  std::string message;
  std::vector<std::string> traceback;
};
struct CodeDone {
  std::string status;  // ok, error, interrupted, timeout, died
  std::uint64_t execution_count = 0;
  std::chrono::milliseconds duration{0};
  std::optional<Ending> ending;  // of an interpreter that died
};
using CodeEvent = std::variant<CodeStarted, Chunk, Gap, Artifact, CodeError, CodeDone>;
using CodeSink = std::function<net::Task<Result<>>(CodeEvent)>;

struct CodeResult {
  CodeStarted started;
  RunResult output;  // artifacts included
  std::optional<CodeError> error;
  CodeDone done;
};

struct Snippet {
  std::string context;
  std::string text;
  std::chrono::milliseconds timeout{0};  // 0: none
};

class CodeValues;

// What a run gives from an offset on, without its CodeStarted. Destroying it leaves the run going
// on.
class CodeEvents {
 public:
  CodeEvents(const Guest& guest, std::unique_ptr<machine::RunStream> stream);
  CodeEvents(CodeEvents&&) noexcept;
  ~CodeEvents();
  // CodeDone is the last.
  net::Task<Result<CodeEvent>> next(Deadline deadline);
  CodeStarted started() const;
  // Behind the last event that next() gave: where follow_code goes on.
  std::uint64_t offset() const { return offset_; }
  // What the outlet has kept back, for who follows no further.
  std::vector<Chunk> cut() { return last_chunks(*out_, *err_); }

 private:
  net::Task<Result<CodeEvent>> read(Deadline deadline);

  const Guest& guest_;
  std::unique_ptr<machine::RunStream> stream_;
  std::unique_ptr<CodeValues> values_;
  std::unique_ptr<Flow> out_;
  std::unique_ptr<Flow> err_;
  std::deque<CodeEvent> waiting_;  // behind what the flows had kept until the end
  std::uint64_t offset_ = 0;
};

// Begins a run that goes on when nobody follows it. One run at a time: Code::conflict.
net::Task<Result<CodeEvents>> begin_code(const Guest& guest, Snippet code, Deadline start);
// The last run of a context; Code::not_found for an older one, or for output no longer held.
net::Task<Result<CodeEvents>> follow_code(const Guest& guest, std::string context, std::string run,
                                          std::uint64_t offset, Deadline deadline);

// To its end, event by event; CodeStarted comes first. One run at a time: Code::conflict.
net::Task<Result<>> stream_code(const Guest& guest, Snippet code, Presence& caller, CodeSink sink,
                                Deadline start);
// To its end, everything in memory; more than `limit` bytes together is Code::exhausted.
net::Task<Result<CodeResult>> run_code(const Guest& guest, Snippet code, Presence& caller,
                                       Deadline start, std::size_t limit = 16UL << 20);

net::Task<Result<Context>> create_context(const Guest& guest, NewContext context,
                                          Deadline deadline);
net::Task<Result<std::vector<Context>>> list_contexts(const Guest& guest, Deadline deadline);
net::Task<Result<Context>> find_context(const Guest& guest, std::string id, Deadline deadline);
// False: nothing was running, or not that run.
net::Task<Result<bool>> interrupt(const Guest& guest, std::string context,
                                  std::optional<std::string> run, Deadline deadline);
// The state is lost, the id stays.
net::Task<Result<Context>> restart_context(const Guest& guest, std::string id, Deadline deadline);
net::Task<Result<>> remove_context(const Guest& guest, std::string id, Deadline deadline);

}  // namespace firebreak::session
