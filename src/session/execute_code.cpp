// One call of code in a session: what is checked, counted, run and recorded, in this order.
#include <algorithm>

#include "base/text.h"
#include "image/image_snapshot.h"
#include "net/race.h"
#include "session/call_output.h"
#include "session/sandboxes.h"
#include "wire/compress.h"
#include "wire/crypto.h"

namespace firebreak::session {
namespace {

constexpr std::size_t kMostCode = 1UL << 20;
constexpr auto kGuestTime = std::chrono::seconds(60);
// A guest that does not end its own code in time is ended by the host.
constexpr auto kGrace = std::chrono::seconds(15);
constexpr const char* kTooLong = "the code ran longer than it may";
constexpr const char* kTooMuchMemory = "the code needed more memory than the session has";

// The caller, for as long as the host lets the code run.
class TimedPresence final : public Presence {
 public:
  TimedPresence(Presence& caller, Deadline deadline) : caller_(caller), deadline_(deadline) {}
  net::Task<void> gone() override {
    net::Event late(co_await net::asio::this_coro::executor);
    auto either = co_await net::race(caller_.gone(), late.wait(deadline_));
    over_ = either.index() == 1;
  }
  bool over() const { return over_; }

 private:
  Presence& caller_;
  Deadline deadline_;
  bool over_ = false;
};

std::string_view class_of(core::ExitStatus status) {
  switch (status) {
    case core::ExitStatus::ok:
      return "";
    case core::ExitStatus::error:
      return "SandboxError";
    case core::ExitStatus::timeout:
      return "SandboxTimeout";
    case core::ExitStatus::oom:
      return "SandboxOutOfMemory";
    case core::ExitStatus::cap_exceeded:
      return "SandboxCapExceeded";
    case core::ExitStatus::provisioning:
      return "SandboxProvisioning";
  }
  return "SandboxError";
}

}  // namespace

// A call under way.
struct Sandboxes::Call {
  control::Caller who;
  Plan plan;
  std::string code;
  core::Invocation record;
  LivePtr live;
  bool fresh = false;   // its session begins with it
  bool single = false;  // and ends with it
  std::string dimension;
  std::optional<core::Time> resets_at;
  std::optional<Command> command;
  std::optional<int> exit_code;
  CallOutput output;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  void ends(core::ExitStatus status, std::string why) {
    record.exit_status = status;
    record.failure_reason = std::move(why);
  }
  void note(const CodeDone& done);
  void note(const CodeError& error);
  void note(const Ending& ending);
  // What a step before user code failed with.
  void refused(const Error& error) {
    const bool cap = error.reason == "cap_exceeded";
    ends(cap ? core::ExitStatus::cap_exceeded : core::ExitStatus::provisioning, error.message);
    for (const auto& [name, value] : error.data)
      if (name == "dimension") dimension = value;
    if (error.resets_at_ms != 0) resets_at = core::from_unix_ms(error.resets_at_ms);
  }
};

net::Task<Result<CodeAnswer>> Sandboxes::execute(control::Caller who, CodeRequest request,
                                                 Presence& caller, CodeSink sink) {
  FB_CO_TRY_ASSIGN(const auto prepared, co_await prepare(std::move(who), std::move(request)));
  Call& call = *prepared;
  services_.steps.reach("call.planned");
  FB_CO_TRY_ASSIGN(const bool inside, co_await let_in(call));
  if (inside) {
    services_.steps.reach("call.counted");
    ++call.live->waiting;
    co_await perform(call, caller, sink);
    --call.live->waiting;
    services_.steps.reach("call.ran");
  }
  co_return co_await conclude(call);
}

// ---------------------------------------------------------------------------------------
// pre-flight

net::Task<Result<std::unique_ptr<Sandboxes::Call>>> Sandboxes::prepare(control::Caller who,
                                                                       CodeRequest request) {
  if (request.code.size() > kMostCode)
    co_return fail(Code::invalid, "the code is larger than 1 MiB",
                   Repair{"write it into a file of the session"});
  auto made = std::make_unique<Call>();
  Call& call = *made;
  if (!request.session.empty()) {
    FB_CO_TRY_ASSIGN(const core::SandboxSession named, co_await find(who, request.session));
    if (named.ended)
      co_return fail(Code::conflict, "the session has ended: " + named.end_reason,
                     Repair{"begin another"});
    request.agent = named.agent;
    request.turn = named.turn;
    call.live = sessions_.at(named.id);
  }
  FB_CO_TRY(core::check_agent_name("agentId", request.agent));
  if (!request.turn.empty()) FB_CO_TRY(core::check_agent_name("turnId", request.turn));
  FB_CO_TRY(may_use(who, request.agent));
  FB_CO_TRY_ASSIGN(call.plan, co_await plan(who.tenant.id, request.template_name));
  // After the last wait: what another call of the turn has begun meanwhile is found.
  if (!call.live) call.live = of_turn(who.tenant.id, request.agent, request.turn);
  if (call.live) call.plan.with = call.live->record.with;
  if (request.command) {
    request.language = "exec";
    request.code = request.command->shell;
    for (const std::string& word : request.command->argv) request.code += word + '\0';
    call.command = std::move(request.command);
  }
  const auto& languages = call.plan.with.languages;
  if (request.language.empty()) request.language = languages.front();
  if (!call.command && std::ranges::find(languages, request.language) == languages.end())
    co_return fail(Code::invalid,
                   "the template " + call.plan.with.name + " has no language " + request.language,
                   Repair{"name one of the template's languages"});
  core::Invocation& record = call.record;
  record.id = core::new_invocation_id();
  record.tenant = who.tenant.id;
  record.agent = request.agent;
  record.turn = request.turn;
  record.template_name = call.plan.with.name;
  record.language = request.language;
  record.key = who.key.id;
  record.code_hash = wire::sha256_hex(request.code);
  record.code_bytes = request.code.size();
  record.started = services_.clock.now();
  record.expires = record.started + std::chrono::days(call.plan.policy.retention_days);
  call.code = std::move(request.code);
  call.who = std::move(who);
  co_return made;
}

// ------------------------------------------------------------------------------------------- quota

// Counted together with its intent, or refused. False: it may not go on.
net::Task<Result<bool>> Sandboxes::let_in(Call& call) {
  core::Invocation& record = call.record;
  if (!call.plan.policy.enabled) {
    call.ends(core::ExitStatus::provisioning, "sessions are turned off for this tenant");
    co_return false;
  }
  if (call.live && call.live->record.calls >= call.live->record.with.calls_limit) {
    record.session = call.live->record.id;
    call.ends(core::ExitStatus::cap_exceeded, "the session has had all the calls it may have");
    call.dimension = "session_calls";
    co_return false;
  }
  call.fresh = call.live == nullptr;
  if (call.fresh) {
    core::SandboxTemplate with = call.plan.with;
    call.single = record.turn.empty();
    if (call.single) with.calls_limit = 1;
    // Known from now on: other calls of the turn join it.
    call.live = add(make(call.who, record.agent, record.turn, std::move(with)));
  }
  core::SandboxSession& session = call.live->record;
  ++session.calls;
  session.last_call = record.started;
  std::vector<core::CapAsk> asks;
  const core::Caps& caps = call.who.tenant.limits.caps;
  if (auto ask = core::ask_of(caps, core::Dimension::tenant_daily, record.started))
    asks.push_back(*std::move(ask));
  if (auto ask = core::ask_of(caps, core::Dimension::agent_hourly, record.started, record.agent))
    asks.push_back(*std::move(ask));
  record.session = session.id;
  auto refused = co_await services_.db.run(
      [&, session](store::Store& store) -> Result<std::optional<core::CapRefusal>> {
        FB_TRY_ASSIGN(auto refusal, store.take_caps(record.tenant, asks));
        if (refusal) return refusal;
        FB_TRY(call.fresh ? store.create_session(session) : store.change_session(session));
        FB_TRY(store.open_invocation(record));
        return refusal;
      });
  if (refused && !*refused) co_return true;
  // Nothing was begun, counted or written.
  if (call.fresh) {
    call.live->record.ended = record.started;
    call.live->record.end_reason = "its first call was refused";
    forget(call.live);
    record.session = {};
  } else {
    --session.calls;
  }
  if (!refused) co_return std::unexpected(refused.error());
  call.ends(core::ExitStatus::cap_exceeded, (*refused)->message());
  call.dimension = core::to_string((*refused)->dimension);
  call.resets_at = (*refused)->resets_at;
  co_return false;
}

// ------------------------------------------------------------------- session, readiness, user code

net::Task<void> Sandboxes::perform(Call& call, Presence& caller, const CodeSink& sink) {
  Live& live = *call.live;
  auto turn = co_await live.queue.lock(Deadline::in(live.record.with.session_limit));
  auto ready =
      turn ? co_await begin(call.who.tenant, call.live) : Result<>(std::unexpected(turn.error()));
  if (!ready) {
    call.refused(ready.error());
    co_return;
  }
  services_.steps.reach("call.ready");
  auto ran = co_await run_user_code(call, caller, sink);
  if (ran) co_return;
  if (ran.error().reason == "cap_exceeded")
    call.refused(ran.error());
  else if (call.record.exit_status != core::ExitStatus::timeout)
    call.ends(core::ExitStatus::error, ran.error().message);
  // What is left of the guest cannot be trusted to take another call.
  const bool lost = ran.error().code == Code::guest || ran.error().code == Code::timeout ||
                    ran.error().code == Code::conflict;
  if (lost || call.record.exit_status == core::ExitStatus::timeout)
    co_await finish_later(call.live, "A call of it failed: " + ran.error().message);
}

net::Task<Result<std::string>> Sandboxes::context_for(const Guest& guest, std::string language) {
  const Deadline deadline = Deadline::in(kGuestTime);
  // The one that is warm in the snapshot, or the one that an earlier call made.
  const std::string id = language == "python" ? image::kWarmContext : language;
  const auto known = co_await find_context(guest, id, deadline);
  if (known && known->language == language) co_return id;
  FB_CO_TRY(co_await create_context(guest, {.language = language, .id = id}, deadline));
  co_return id;
}

// How code in a context ended, as the record says it.
void Sandboxes::Call::note(const CodeDone& done) {
  using enum core::ExitStatus;
  if (done.status == "ok")
    ends(ok, "");
  else if (done.status == "timeout")
    ends(timeout, kTooLong);
  else if (done.ending && done.ending->out_of_memory)
    ends(oom, kTooMuchMemory);
  else if (done.status == "died")
    ends(error, "the interpreter ended");
  else if (done.status == "interrupted")
    ends(error, "the code was interrupted");
}

void Sandboxes::Call::note(const CodeError& error) {
  std::string text;
  for (const std::string& line : error.traceback) text += line + "\n";
  if (text.empty()) text = error.name + ": " + error.message + "\n";
  output.err.add(text);
  ends(core::ExitStatus::error, error.name + ": " + error.message);
}

void Sandboxes::Call::note(const Ending& ending) {
  using enum core::ExitStatus;
  exit_code = ending.exit_code;
  if (ending.timed_out)
    ends(timeout, kTooLong);
  else if (ending.out_of_memory)
    ends(oom, kTooMuchMemory);
  else if (ending.exit_code == 0)
    ends(ok, "");
  else
    ends(error, ending.exit_code
                    ? "the command ended with status " + std::to_string(*ending.exit_code)
                    : "a signal ended the command");
}

net::Task<Result<>> Sandboxes::run_user_code(Call& call, Presence& caller, const CodeSink& sink) {
  const core::SandboxSession& session = call.live->record;
  FB_CO_TRY_ASSIGN(const Guest guest, co_await machines_.enter(session.tenant, session.microvm,
                                                               Deadline::in(kGuestTime)));
  TimedPresence timed(caller, Deadline::in(session.with.call_limit + kGrace));
  auto ran = call.command ? co_await run_command(call, guest, timed, sink)
                          : co_await run_snippet(call, guest, timed, sink);
  if (!ran && timed.over()) call.ends(core::ExitStatus::timeout, kTooLong);
  co_return ran;
}

net::Task<Result<>> Sandboxes::run_snippet(Call& call, const Guest& guest, Presence& caller,
                                           const CodeSink& sink) {
  FB_CO_TRY_ASSIGN(std::string context, co_await context_for(guest, call.record.language));
  services_.steps.reach("call.running");
  auto collect = [&](CodeEvent event) -> net::Task<Result<>> {
    if (const auto* chunk = std::get_if<Chunk>(&event)) call.output.add(*chunk);
    if (const auto* error = std::get_if<CodeError>(&event)) call.note(*error);
    if (const auto* done = std::get_if<CodeDone>(&event)) call.note(*done);
    if (sink) co_return co_await sink(std::move(event));
    co_return Result<>();
  };
  Snippet snippet{.context = std::move(context),
                  .text = call.code,
                  .timeout = call.live->record.with.call_limit};
  co_return co_await stream_code(guest, std::move(snippet), caller, collect,
                                 Deadline::in(kGuestTime));
}

net::Task<Result<>> Sandboxes::run_command(Call& call, const Guest& guest, Presence& caller,
                                           const CodeSink& sink) {
  services_.steps.reach("call.running");
  call.command->timeout = call.live->record.with.call_limit;
  auto collect = [&](ExecEvent event) -> net::Task<Result<>> {
    if (const auto* ending = std::get_if<Ending>(&event)) call.note(*ending);
    auto* chunk = std::get_if<Chunk>(&event);
    if (chunk == nullptr) co_return Result<>();
    call.output.add(*chunk);
    if (sink) co_return co_await sink(std::move(*chunk));
    co_return Result<>();
  };
  co_return co_await stream(guest, *call.command, "", caller, collect);
}

// ----------------------------------------------------------------------------------------- record

net::Task<Result<CodeAnswer>> Sandboxes::conclude(Call& call) {
  core::Invocation& record = call.record;
  const core::SandboxTemplate& with = call.plan.with;
  record.duration =
      std::chrono::duration_cast<core::Millis>(std::chrono::steady_clock::now() - call.began);
  record.failure_reason.resize(std::min<std::size_t>(record.failure_reason.size(), 1024));
  PrintedStream& out = call.output.out;
  PrintedStream& err = call.output.err;
  CodeAnswer answer;
  answer.out = out.shown(with.stdout_limit);
  answer.err = err.shown(with.stderr_limit);
  record.stdout_bytes = out.total();
  record.stderr_bytes = err.total();
  record.stdout_truncated = out.total() > answer.out.size();
  record.stderr_truncated = err.total() > answer.err.size();
  record.stdout_hash = out.hash();
  record.stderr_hash = err.hash();
  std::optional<store::InvocationOutput> kept;
  if (call.plan.policy.keep_output && out.total() + err.total() > 0) {
    kept = co_await net::run_blocking(services_.pool, [&] {
      return store::InvocationOutput{.out = wire::compress(out.kept()),
                                     .err = wire::compress(err.kept())};
    });
  }
  FB_CO_TRY(co_await services_.db.run(
      [&](store::Store& store) { return store.add_invocation(record, kept); }));
  services_.steps.reach("call.recorded");
  services_.metrics.add("firebreak_sandbox_calls_total",
                        obs::label("exit_status", core::to_string(record.exit_status)));
  if (call.single && !call.live->record.ended)
    tasks_.spawn("session_end", finish_later(call.live, "Its call is over."));
  if (call.live && !call.live->record.ended) call.live->record.last_call = services_.clock.now();
  answer.error = class_of(record.exit_status);
  answer.error_message = record.failure_reason;
  answer.dimension = std::move(call.dimension);
  answer.resets_at = call.resets_at;
  answer.exit_code = call.exit_code;
  answer.record = record;
  co_return answer;
}

}  // namespace firebreak::session
