#include "session/sandboxes.h"

namespace firebreak::session {
namespace {

// A launch from nothing under emulation, when many start at once.
constexpr auto kBeginTime = std::chrono::minutes(3);
constexpr auto kEndTime = std::chrono::seconds(60);
constexpr std::uint32_t kMostListed = 1000;

std::unexpected<Error> no_session(const core::SessionId& id) {
  return fail(Code::not_found, "there is no session " + id.str(),
              Repair{"`firebreak session ls` lists yours"});
}

}  // namespace

Sandboxes::Sandboxes(control::Services& services, SandboxMachines& machines)
    : services_(services), machines_(machines), tasks_(services.executor, services.exceptions()) {
  services_.metrics.describe("firebreak_sandbox_calls_total", "counter",
                             "Calls in sessions, by how they ended.");
  services_.metrics.describe("firebreak_sandbox_sessions", "gauge", "Sessions that live.");
}

// ------------------------------------------------------------------------------- who, which, where

// An agent's key runs code for its own agent only.
Result<> Sandboxes::may_use(const control::Caller& who, const std::string& agent) const {
  if (who.key.kind != core::KeyKind::agent || who.key.agent == agent) return {};
  return fail(Code::denied, Reason{"not_your_agent"}, "this key is of another agent",
              Repair{"use the agentId that the key was made for"});
}

net::Task<Result<Sandboxes::Plan>> Sandboxes::plan(core::TenantId tenant,
                                                   std::string template_name) const {
  if (template_name.empty()) template_name = core::kDefaultTemplate;
  co_return co_await services_.db.run([&](const store::Store& store) -> Result<Plan> {
    Plan plan;
    FB_TRY_ASSIGN(plan.policy, store.sandbox_policy(tenant));
    FB_TRY_ASSIGN(const auto found, store.find_template(tenant, template_name));
    if (!found && template_name != core::kDefaultTemplate)
      return fail(Code::not_found, "there is no template " + template_name,
                  Repair{"`firebreak template ls` lists yours"});
    plan.with = found ? *found : core::usual_template(plan.policy.tier);
    return plan;
  });
}

Sandboxes::LivePtr Sandboxes::of_turn(const core::TenantId& tenant, const std::string& agent,
                                      const std::string& turn) const {
  if (turn.empty()) return nullptr;
  for (const auto& [id, live] : sessions_) {
    const core::SandboxSession& record = live->record;
    if (record.turn == turn && record.agent == agent && record.tenant == tenant) return live;
  }
  return nullptr;
}

core::SandboxSession Sandboxes::make(const control::Caller& who, const std::string& agent,
                                     const std::string& turn, core::SandboxTemplate with) const {
  core::SandboxSession session;
  session.id = core::new_session_id();
  session.tenant = who.tenant.id;
  session.agent = agent;
  session.turn = turn;
  session.with = std::move(with);
  session.key = who.key.id;
  session.created = session.last_call = services_.clock.now();
  return session;
}

Sandboxes::LivePtr Sandboxes::add(core::SandboxSession session) {
  auto live = std::make_shared<Live>(services_.executor, std::move(session));
  sessions_[live->record.id] = live;
  services_.metrics.set("firebreak_sandbox_sessions", "", static_cast<double>(sessions_.size()));
  return live;
}

void Sandboxes::forget(const LivePtr& live) {
  sessions_.erase(live->record.id);
  services_.metrics.set("firebreak_sandbox_sessions", "", static_cast<double>(sessions_.size()));
}

net::Task<Result<core::SandboxSession>> Sandboxes::find(control::Caller who, core::SessionId id) {
  if (const auto at = sessions_.find(id);
      at != sessions_.end() && at->second->record.tenant == who.tenant.id) {
    const core::SandboxSession record = at->second->record;
    if (!may_use(who, record.agent)) co_return no_session(id);
    co_return record;
  }
  const core::TenantId tenant = who.tenant.id;
  FB_CO_TRY_ASSIGN(const auto found, co_await services_.db.run([&](const store::Store& store) {
    return store.find_session(tenant, id);
  }));
  if (!found || !may_use(who, found->agent)) co_return no_session(id);
  co_return *found;
}

net::Task<Result<std::vector<core::SandboxSession>>> Sandboxes::list(control::Caller who,
                                                                     bool also_ended) {
  FB_CO_TRY_ASSIGN(auto all, co_await services_.db.run([&](const store::Store& store) {
    return store.list_sessions(who.tenant.id, also_ended, kMostListed);
  }));
  std::erase_if(all, [&](const core::SandboxSession& each) { return !may_use(who, each.agent); });
  co_return all;
}

// ------------------------------------------------------------------------------- begin and end

net::Task<Result<core::SandboxSession>> Sandboxes::create(control::Caller who, NewSession wanted) {
  FB_CO_TRY(core::check_agent_name("agentId", wanted.agent));
  if (!wanted.turn.empty()) FB_CO_TRY(core::check_agent_name("turnId", wanted.turn));
  FB_CO_TRY(may_use(who, wanted.agent));
  if (const LivePtr known = of_turn(who.tenant.id, wanted.agent, wanted.turn))
    co_return known->record;
  FB_CO_TRY_ASSIGN(const Plan planned, co_await plan(who.tenant.id, wanted.template_name));
  if (!planned.policy.enabled)
    co_return fail(Code::denied, Reason{"sandbox_disabled"},
                   "sessions are turned off for this tenant",
                   Repair{"an administrator turns them on: `firebreak policy set enabled=true`"});
  const LivePtr live = add(make(who, wanted.agent, wanted.turn, planned.with));
  const auto kept = co_await services_.db.run(
      [record = live->record](store::Store& store) { return store.create_session(record); });
  if (!kept) {
    forget(live);
    co_return std::unexpected(kept.error());
  }
  FB_CO_TRY_ASSIGN(const auto turn, co_await live->queue.lock(Deadline::in(kBeginTime)));
  FB_CO_TRY(co_await begin(who.tenant, live));
  co_return live->record;
}

net::Task<Result<>> Sandboxes::begin(core::Tenant tenant, LivePtr live) {
  if (live->record.ended)
    co_return fail(Code::conflict, "the session has ended: " + live->record.end_reason,
                   Repair{"call again to begin another"});
  if (live->ready) co_return Result<>();
  auto begun = co_await begin_steps(std::move(tenant), live, Deadline::in(kBeginTime));
  if (!begun) {
    (void)co_await finish(live, "It could not begin: " + begun.error().message);
    co_return begun;
  }
  live->ready = true;
  co_return Result<>();
}

net::Task<Result<>> Sandboxes::begin_steps(core::Tenant tenant, LivePtr live, Deadline deadline) {
  if (live->record.microvm.empty()) {
    FB_CO_TRY_ASSIGN(live->record.microvm,
                     co_await machines_.launch(std::move(tenant), live->record, deadline));
    services_.steps.reach("session.launched");
    // A server that ends before this is on the disk finds the microVM by its tag.
    FB_CO_TRY(co_await services_.db.run(
        [record = live->record](store::Store& store) { return store.change_session(record); },
        store::Durability::later));
  }
  FB_CO_TRY(co_await machines_.verify(live->record.tenant, live->record.microvm, deadline));
  services_.steps.reach("session.verified");
  co_return Result<>();
}

net::Task<Result<>> Sandboxes::finish(LivePtr live, std::string why) {
  if (live->record.ended) co_return Result<>();
  live->record.ended = services_.clock.now();
  live->record.end_reason = why;
  forget(live);
  FB_CO_TRY(co_await services_.db.run(
      [record = live->record](store::Store& store) { return store.change_session(record); }));
  services_.steps.reach("session.ended");
  if (live->record.microvm.empty()) co_return Result<>();
  co_return co_await machines_.end(live->record.tenant, live->record.microvm, std::move(why),
                                   Deadline::in(kEndTime));
}

net::Task<void> Sandboxes::finish_later(LivePtr live, std::string why) {
  auto ended = co_await finish(live, std::move(why));
  if (!ended)
    services_.log.error("session",
                        {{"id", live->record.id.str()}, {"error", ended.error().text()}});
}

net::Task<Result<core::SandboxSession>> Sandboxes::end(control::Caller who, core::SessionId id) {
  FB_CO_TRY_ASSIGN(const core::SandboxSession known, co_await find(who, id));
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) co_return known;
  const LivePtr live = at->second;
  FB_CO_TRY(co_await finish(live, "It was ended as asked."));
  co_return live->record;
}

net::Task<Result<bool>> Sandboxes::end_turn(control::Caller who, std::string agent,
                                            std::string turn) {
  FB_CO_TRY(core::check_agent_name("agentId", agent));
  FB_CO_TRY(core::check_agent_name("turnId", turn));
  FB_CO_TRY(may_use(who, agent));
  const LivePtr live = of_turn(who.tenant.id, agent, turn);
  if (!live) co_return false;
  FB_CO_TRY(co_await finish(live, "Its turn is over."));
  co_return true;
}

// ---------------------------------------------------------------------------------------- the
// clock

net::Task<void> Sandboxes::end_due() {
  const core::Time now = services_.clock.now();
  std::vector<std::pair<LivePtr, std::string>> due;
  for (const auto& [id, live] : sessions_) {
    core::SandboxSession seen = live->record;
    // A call that runs is no idleness.
    if (live->waiting > 0) seen.last_call = now;
    const auto& cpu = seen.with.cpu_seconds_limit;
    if (const auto end = core::next_end(seen); end && end->at <= now)
      due.emplace_back(live, end->why);
    else if (cpu && machines_.cpu_seconds(seen.microvm) > *cpu)
      due.emplace_back(live, "It used more CPU than its template allows.");
  }
  for (auto& [live, why] : due) co_await finish_later(live, std::move(why));
}

net::Task<void> Sandboxes::watch() {
  net::Event pause(services_.executor);
  for (;;) {
    (void)co_await pause.wait(Deadline::in(services_.options.tick));
    co_await end_due();
  }
}

// ---------------------------------------------------------------------------------------- the
// start

net::Task<Result<>> Sandboxes::start() {
  FB_CO_TRY(co_await record_unfinished());
  FB_CO_TRY(co_await take_up());
  tasks_.spawn("sessions", watch());
  co_return Result<>();
}

net::Task<void> Sandboxes::stop(Deadline deadline) {
  (void)co_await tasks_.close(deadline);
}

net::Task<Result<>> Sandboxes::record_unfinished() {
  const core::Time now = services_.clock.now();
  co_return co_await services_.db.run([now](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(auto open, store.open_invocations());
    for (core::Invocation& call : open) {
      call.exit_status = core::ExitStatus::error;
      call.failure_reason = "The server stopped during the call.";
      call.duration = std::max(core::Millis(0), now - call.started);
      FB_TRY(store.add_invocation(call, std::nullopt));
    }
    return {};
  });
}

// A turn goes on in its session, because guests outlive a server. What was of one call, or never
// got as far as a microVM, ends.
net::Task<Result<>> Sandboxes::take_up() {
  FB_CO_TRY_ASSIGN(const auto found, co_await services_.db.run([](const store::Store& store) {
    return store.live_sessions();
  }));
  const auto microvms = machines_.living();
  for (const core::SandboxSession& session : found) {
    const LivePtr live = add(session);
    const auto own = microvms.find(session.id);
    if (own != microvms.end()) live->record.microvm = own->second.id;
    const bool used_up = session.calls >= session.with.calls_limit;
    if (own == microvms.end() || used_up)
      co_await finish_later(live, "The server stopped while it was in use.");
  }
  for (const auto& [id, microvm] : microvms) {
    if (sessions_.contains(id)) continue;
    auto ended = co_await machines_.end(microvm.tenant, microvm.id, "Its session has ended.",
                                        Deadline::in(kEndTime));
    if (!ended) services_.log.error("session", {{"id", id.str()}, {"error", ended.error().text()}});
  }
  co_return Result<>();
}

}  // namespace firebreak::session
