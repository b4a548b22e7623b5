// Sessions: each one microVM of a template, for one agent and perhaps one turn of it, with calls
// that are let in, counted, run one after the other, and recorded. Every door that runs an agent's
// code comes here. Owned by the program; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "control/key_ring.h"
#include "control/services.h"
#include "net/semaphore.h"
#include "net/task_group.h"
#include "session/code.h"
#include "session/exec.h"
#include "session/sandbox_machines.h"

namespace firebreak::session {

struct CodeRequest {
  std::string agent;
  std::string turn;           // empty: the session is fresh, and ends after the call
  core::SessionId session;    // instead of agent and turn: one that was begun by itself
  std::string template_name;  // empty: "default", or that of the turn's session
  std::string language;       // empty: the template's first
  std::string code;
  std::optional<Command> command;  // instead of code
};

// What a call came to, also when it was refused.
struct CodeAnswer {
  core::Invocation record;
  std::string out;  // as much as the template shows
  std::string err;
  std::string error;          // class of what went wrong; empty when all is well
  std::string error_message;  // for the agent to explain
  std::string dimension;      // of a cap
  std::optional<core::Time> resets_at;
  std::optional<int> exit_code;  // of a command
  bool ok() const { return record.exit_status == core::ExitStatus::ok; }
};

struct NewSession {
  std::string agent;
  std::string turn;
  std::string template_name;
};

class Sandboxes {
 public:
  Sandboxes(control::Services& services, SandboxMachines& machines);

  // Gives every call that an earlier server did not finish its record, takes up the sessions that
  // live on, ends what belongs to none, and lets time act until stop().
  net::Task<Result<>> start();
  net::Task<void> stop(Deadline deadline);

  // Pre-flight, quota, session, readiness, user code, record. An error is a request that is wrong
  // in itself: it was not counted, and nothing is recorded. Everything else is an answer.
  // `sink` gets the events of the run as they come.
  net::Task<Result<CodeAnswer>> execute(control::Caller who, CodeRequest request, Presence& caller,
                                        CodeSink sink = {});

  // A session without a call. The same turn gives the same session.
  net::Task<Result<core::SandboxSession>> create(control::Caller who, NewSession wanted);
  net::Task<Result<core::SandboxSession>> find(control::Caller who, core::SessionId id);
  net::Task<Result<std::vector<core::SandboxSession>>> list(control::Caller who, bool also_ended);
  // Ends it with all that it had; one that has ended is fine.
  net::Task<Result<core::SandboxSession>> end(control::Caller who, core::SessionId id);
  // False: the turn has no session.
  net::Task<Result<bool>> end_turn(control::Caller who, std::string agent, std::string turn);

  // What the clock has ended by now. The background task calls it; tests as well.
  net::Task<void> end_due();
  std::size_t living() const { return sessions_.size(); }

 private:
  struct Live {
    Live(const net::asio::any_io_executor& executor, core::SandboxSession session)
        : record(std::move(session)), queue(executor) {}
    core::SandboxSession record;
    net::Mutex queue;    // its calls run one after the other
    int waiting = 0;     // calls that run or wait
    bool ready = false;  // the host has looked
  };
  using LivePtr = std::shared_ptr<Live>;
  // What a request means for this tenant just now.
  struct Plan {
    core::SandboxPolicy policy;
    core::SandboxTemplate with;
  };
  struct Call;

  net::Task<Result<Plan>> plan(core::TenantId tenant, std::string template_name) const;
  Result<> may_use(const control::Caller& who, const std::string& agent) const;
  LivePtr of_turn(const core::TenantId& tenant, const std::string& agent,
                  const std::string& turn) const;
  LivePtr add(core::SandboxSession session);
  void forget(const LivePtr& live);
  core::SandboxSession make(const control::Caller& who, const std::string& agent,
                            const std::string& turn, core::SandboxTemplate with) const;
  // Launches and looks, once. The session has ended when this fails.
  net::Task<Result<>> begin(core::Tenant tenant, LivePtr live);
  net::Task<Result<>> begin_steps(core::Tenant tenant, LivePtr live, Deadline deadline);
  // From now on nobody calls it; its microVM goes.
  net::Task<Result<>> finish(LivePtr live, std::string why);
  net::Task<void> finish_later(LivePtr live, std::string why);

  // execute_code.cpp
  net::Task<Result<std::unique_ptr<Call>>> prepare(control::Caller who, CodeRequest request);
  net::Task<Result<bool>> let_in(Call& call);
  net::Task<void> perform(Call& call, Presence& caller, const CodeSink& sink);
  net::Task<Result<>> run_user_code(Call& call, Presence& caller, const CodeSink& sink);
  net::Task<Result<>> run_snippet(Call& call, const Guest& guest, Presence& caller,
                                  const CodeSink& sink);
  net::Task<Result<>> run_command(Call& call, const Guest& guest, Presence& caller,
                                  const CodeSink& sink);
  net::Task<Result<std::string>> context_for(const Guest& guest, std::string language);
  net::Task<Result<CodeAnswer>> conclude(Call& call);

  net::Task<Result<>> record_unfinished();
  net::Task<Result<>> take_up();
  net::Task<void> watch();

  control::Services& services_;
  SandboxMachines& machines_;
  std::map<core::SessionId, LivePtr> sessions_;  // that have not ended
  net::TaskGroup tasks_;                         // last: they use what is above
};

}  // namespace firebreak::session
