// Code in contexts: interpreters in a guest that keep their state from one run to the next. A run
// belongs to its caller: when the caller leaves, the run is interrupted and the context stays. One
// executor.
#pragma once

#include <functional>
#include <map>
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
