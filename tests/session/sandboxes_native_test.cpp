// Sessions and their calls, on agents as plain processes. Tests that show a requirement of the
// sandbox contract are named by it (TW-n).
#include <gmock/gmock.h>

#include "session/sandbox_world.h"
#include "wire/compress.h"
#include "wire/crypto.h"

namespace firebreak::session {
namespace {

using core::ExitStatus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::Staying;
using World = testing_support::SandboxWorld;

CodeRequest code(std::string text, std::string turn = "", std::string agent = "agent") {
  CodeRequest request;
  request.agent = std::move(agent);
  request.turn = std::move(turn);
  request.code = std::move(text);
  return request;
}

TEST_F(World, TW1_ACallAnswersWhatItPrinted) {
  const CodeAnswer answer = execute(a_, code("print(6*7)"));
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.out, "42\n");
  EXPECT_EQ(answer.err, "");
  EXPECT_EQ(answer.error, "");
  EXPECT_FALSE(answer.record.session.empty());
  // TW-25: the record says who, what and how.
  const auto rows = records(a_);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0], answer.record);
  EXPECT_EQ(rows[0].agent, "agent");
  EXPECT_EQ(rows[0].key, a_.key.id);
  EXPECT_EQ(rows[0].code_hash, wire::sha256_hex("print(6*7)"));
  EXPECT_EQ(rows[0].stdout_bytes, 3U);
  EXPECT_EQ(rows[0].stdout_hash, wire::sha256_hex("42\n"));
  EXPECT_EQ(rows[0].expires - rows[0].started, std::chrono::days(30));
  // Without a turn the session ends with its call.
  settle();
  EXPECT_THAT(machines_.all, IsEmpty());
  EXPECT_EQ(sandboxes_->living(), 0U);
}

TEST_F(World, TW2_AFailureHasAClassAndWords) {
  const CodeAnswer raised = execute(a_, code("print('before')\nraise ValueError('no')"));
  EXPECT_EQ(raised.record.exit_status, ExitStatus::error);
  EXPECT_EQ(raised.error, "SandboxError");
  EXPECT_EQ(raised.error_message, "ValueError: no");
  EXPECT_EQ(raised.out, "before\n");
  EXPECT_THAT(raised.err, HasSubstr("ValueError: no"));
  const CodeAnswer died = execute(a_, code("import os\nos._exit(3)"));
  EXPECT_EQ(died.record.exit_status, ExitStatus::error);
  EXPECT_EQ(died.error_message, "the interpreter ended");
}

TEST_F(World, TW3_TW5_ATenantThatIsTurnedOffStartsNothing) {
  auto off = core::SandboxPolicy{};
  off.enabled = false;
  ASSERT_TRUE(run(
      db_->run([&](store::Store& store) { return store.set_sandbox_policy(a_.tenant.id, off); })));
  const CodeAnswer answer = execute(a_, code("print(1)", "turn"));
  EXPECT_EQ(answer.record.exit_status, ExitStatus::provisioning);
  EXPECT_EQ(answer.error, "SandboxProvisioning");
  EXPECT_TRUE(answer.record.session.empty());
  EXPECT_EQ(machines_.launched, 0);
  EXPECT_THAT(records(a_), SizeIs(1));
  EXPECT_THAT(counts(a_), IsEmpty());
  const auto begun = run(sandboxes_->create(a_, {.agent = "agent", .turn = "turn"}));
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().reason, "sandbox_disabled");
  // Another tenant is not touched by it.
  EXPECT_TRUE(execute(b_, code("print(1)")).ok());
}

TEST_F(World, TW3_ALaunchThatFailsIsProvisioning) {
  machines_.launches = fail(Code::unavailable, "there is no room");
  const CodeAnswer answer = execute(a_, code("print(1)", "turn"));
  EXPECT_EQ(answer.error, "SandboxProvisioning");
  EXPECT_THAT(answer.error_message, HasSubstr("there is no room"));
  machines_.launches = {};
  EXPECT_TRUE(execute(a_, code("print(1)", "turn")).ok());
}

TEST_F(World, TW9_StepsHaveTheirOrder) {
  EXPECT_TRUE(execute(a_, code("print(1)", "turn")).ok());
  EXPECT_THAT(steps_,
              ElementsAre("call.planned", "call.counted", "session.launched", "session.verified",
                          "call.ready", "call.running", "call.ran", "call.recorded"));
  steps_.clear();
  EXPECT_TRUE(execute(a_, code("print(1)", "turn")).ok());
  EXPECT_THAT(steps_, ElementsAre("call.planned", "call.counted", "call.ready", "call.running",
                                  "call.ran", "call.recorded"));
}

TEST_F(World, TW10_UserCodeNeverRunsInWhatIsNotFit) {
  machines_.fit =
      fail(Code::corrupt, "the memory of the image's snapshot is not what was recorded");
  const CodeAnswer answer = execute(a_, code("open('" + dir_ + "/ran','w')", "turn"));
  EXPECT_EQ(answer.record.exit_status, ExitStatus::provisioning);
  EXPECT_EQ(answer.error, "SandboxProvisioning");
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/ran"));
  EXPECT_THAT(machines_.all, IsEmpty());
  // TW-29: the look itself is neither counted nor recorded.
  EXPECT_THAT(records(a_), SizeIs(1));
  EXPECT_EQ(counts(a_)["tenant_daily"], 1U);
}

TEST_F(World, TW11_CallsOfATurnShareASession) {
  const CodeAnswer first = execute(a_, code("x = 'kept'", "turn"));
  const CodeAnswer second = execute(a_, code("print(x)", "turn"));
  EXPECT_EQ(second.out, "kept\n");
  EXPECT_EQ(first.record.session, second.record.session);
  EXPECT_NE(first.record.id, second.record.id);
  EXPECT_EQ(machines_.launched, 1);
  EXPECT_EQ(machines_.verified, 1);
  EXPECT_THAT(records(a_), SizeIs(2));
  EXPECT_EQ(counts(a_)["tenant_daily"], 2U);
  EXPECT_EQ(counts(a_)["agent_hourly"], 2U);
}

TEST_F(World, TW12_TW13_NothingOutlivesItsTurn) {
  execute(a_, code("x = 1", "one"));
  const CodeAnswer other = execute(a_, code("print(x)", "two"));
  EXPECT_THAT(other.err, HasSubstr("NameError"));
  // The same name of another agent, or of another tenant, is another turn.
  EXPECT_THAT(execute(a_, code("print(x)", "one", "other")).err, HasSubstr("NameError"));
  EXPECT_THAT(execute(b_, code("print(x)", "one")).err, HasSubstr("NameError"));
  EXPECT_TRUE(run(sandboxes_->end_turn(a_, "agent", "one")).value());
  EXPECT_FALSE(run(sandboxes_->end_turn(a_, "agent", "one")).value());
  EXPECT_EQ(machines_.all.size(), 3U);
  EXPECT_THAT(execute(a_, code("print(x)", "one")).err, HasSubstr("NameError"));
}

TEST_F(World, TW13_TheClockEndsWhatNobodyEnds) {
  execute(a_, code("x = 1", "turn"));
  clock_.pass(core::Seconds(29 * 60));
  run(sandboxes_->end_due());
  EXPECT_EQ(execute(a_, code("print(x)", "turn")).out, "1\n");
  clock_.pass(core::Seconds(31 * 60));
  run(sandboxes_->end_due());
  EXPECT_THAT(machines_.all, IsEmpty());
  // Calls keep it alive, but no longer than its life.
  execute(a_, code("x = 1", "long"));
  for (int n = 0; n < 16; ++n) {
    clock_.pass(core::Seconds(25 * 60));
    run(sandboxes_->end_due());
    execute(a_, code("print(x)", "long"));
  }
  EXPECT_EQ(machines_.all.size(), 1U);
  for (int n = 0; n < 4; ++n) clock_.pass(core::Seconds(25 * 60));
  run(sandboxes_->end_due());
  EXPECT_THAT(machines_.all, IsEmpty());
}

TEST_F(World, TW14_EndlessCodeIsATimeout) {
  auto quick = core::usual_template(core::Tier::standard);
  quick.call_limit = core::Seconds(1);
  ASSERT_TRUE(
      run(db_->run([&](store::Store& store) { return store.put_template(a_.tenant.id, quick); })));
  const CodeAnswer answer = execute(a_, code("while True: pass", "turn"));
  EXPECT_EQ(answer.record.exit_status, ExitStatus::timeout);
  EXPECT_EQ(answer.error, "SandboxTimeout");
  EXPECT_GE(answer.record.duration.count(), 1000);
}

TEST_F(World, TW4_TW17_TW18_TW19_TW20_ACapRefusesAndIsRecorded) {
  a_.tenant.limits.caps[core::Dimension::tenant_daily] = 2;
  execute(a_, code("1", "turn"));
  execute(a_, code("1", "turn"));
  const int launched = machines_.launched;
  CodeAnswer refused = execute(a_, code("1", "turn"));
  EXPECT_EQ(refused.error, "SandboxCapExceeded");
  EXPECT_EQ(refused.record.exit_status, ExitStatus::cap_exceeded);
  EXPECT_EQ(refused.dimension, "tenant_daily");
  EXPECT_EQ(refused.resets_at, core::end_of(core::Window::day, clock_.now()));
  // TW-17: a refused call begins nothing.
  refused = execute(a_, code("1", "new"));
  EXPECT_TRUE(refused.record.session.empty());
  EXPECT_EQ(machines_.launched, launched);
  // TW-20: each has a row.
  EXPECT_THAT(records(a_), SizeIs(4));
  // TW-18: a cap holds from the next call on.
  a_.tenant.limits.caps[core::Dimension::tenant_daily] = 3;
  EXPECT_TRUE(execute(a_, code("1", "turn")).ok());
  // The other dimension, with its own end.
  a_.tenant.limits.caps = {};
  a_.tenant.limits.caps[core::Dimension::agent_hourly] = 3;
  refused = execute(a_, code("1", "turn"));
  EXPECT_EQ(refused.dimension, "agent_hourly");
  EXPECT_EQ(refused.resets_at, core::end_of(core::Window::hour, clock_.now()));
  EXPECT_TRUE(execute(a_, code("1", "turn", "another")).ok());
  clock_.pass(core::Seconds(3600));
  EXPECT_TRUE(execute(a_, code("1", "turn")).ok());
  // TW-19: 0 stops all.
  a_.tenant.limits.caps[core::Dimension::tenant_daily] = 0;
  EXPECT_EQ(execute(a_, code("1", "turn")).dimension, "tenant_daily");
}

TEST_F(World, TW16_OfTwoHundredParallelCallsExactlyTheRestPasses) {
  a_.tenant.limits.caps[core::Dimension::tenant_daily] = 15;
  a_.tenant.limits.caps[core::Dimension::agent_hourly] = 1000;
  for (int n = 0; n < 5; ++n) execute(a_, code("1", "turn"));
  int passed = 0;
  int refused = 0;
  int left = 200;
  Staying caller(io_.get_executor());
  for (int n = 0; n < 200; ++n) {
    control::start_task(io_,
                        [](World& world, Staying& stays, const control::Caller& who, int& ok,
                           int& no, int& rest, Sandboxes& all) -> net::Task<void> {
                          (void)world;
                          const auto answer = co_await all.execute(who, code("1", "turn"), stays);
                          EXPECT_TRUE(answer) << answer.error().text();
                          if (answer && answer->ok()) ++ok;
                          if (answer && answer->record.exit_status == ExitStatus::cap_exceeded)
                            ++no;
                          --rest;
                        }(*this, caller, a_, passed, refused, left, *sandboxes_));
  }
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  while (left > 0 && !deadline.passed()) io_.run_one_for(std::chrono::seconds(1));
  EXPECT_EQ(passed, 10);
  EXPECT_EQ(refused, 190);
  EXPECT_EQ(counts(a_)["tenant_daily"], 15U);
  EXPECT_THAT(records(a_), SizeIs(205));
}

TEST_F(World, TW21_TW22_TW23_OutputIsCutCountedAndKept) {
  const CodeAnswer answer = execute(a_, code("import sys\nprint('\\u20ac'*350000,end='')\n"
                                             "sys.stderr.write('e'*1000000)",
                                             "turn"));
  EXPECT_EQ(answer.out.size(), 256U * 1024 / 3 * 3);
  EXPECT_EQ(answer.err.size(), 32U * 1024);
  EXPECT_EQ(answer.record.stdout_bytes, 1'050'000U);
  EXPECT_EQ(answer.record.stderr_bytes, 1'000'000U);
  EXPECT_TRUE(answer.record.stdout_truncated && answer.record.stderr_truncated);
  const auto kept = *run(db_->run([&](const store::Store& store) {
    return store.invocation_output(a_.tenant.id, answer.record.id);
  }));
  ASSERT_TRUE(kept);
  EXPECT_EQ(wire::expand(kept->err, 2 << 20).value(), std::string(1'000'000, 'e'));
  EXPECT_EQ(wire::expand(kept->out, 2 << 20).value().size(), 1'050'000U);
}

TEST_F(World, ATenantWithoutContentKeepsHashesOnly) {
  auto policy = core::usual_policy(core::Tier::regulated);
  policy.enabled = true;
  ASSERT_TRUE(run(db_->run(
      [&](store::Store& store) { return store.set_sandbox_policy(a_.tenant.id, policy); })));
  const CodeAnswer answer = execute(a_, code("print('secret')", "turn"));
  EXPECT_EQ(answer.out, "secret\n");
  EXPECT_EQ(answer.record.stdout_hash, wire::sha256_hex("secret\n"));
  EXPECT_EQ(answer.record.expires - answer.record.started, std::chrono::days(7));
  EXPECT_FALSE(*run(db_->run([&](const store::Store& store) {
    return store.invocation_output(a_.tenant.id, answer.record.id);
  })));
  EXPECT_EQ(machines_.all.begin()->second.session.with.environment, core::kInternalOnly);
}

TEST_F(World, TW8_ATenantReachesNoSessionOfAnother) {
  const CodeAnswer mine = execute(a_, code("x = 1", "turn"));
  EXPECT_EQ(run(sandboxes_->find(b_, mine.record.session)).error().code, Code::not_found);
  EXPECT_EQ(run(sandboxes_->end(b_, mine.record.session)).error().code, Code::not_found);
  CodeRequest request;
  request.session = mine.record.session;
  request.code = "print(x)";
  Staying caller(io_.get_executor());
  EXPECT_EQ(run(sandboxes_->execute(b_, request, caller)).error().code, Code::not_found);
  EXPECT_EQ(execute(a_, request).out, "1\n");
  EXPECT_THAT(run(sandboxes_->list(b_, true)).value(), IsEmpty());
  // Equal code, equal hash, and nothing else in common.
  const CodeAnswer theirs = execute(b_, code("x = 1", "turn"));
  EXPECT_EQ(mine.record.code_hash, theirs.record.code_hash);
  EXPECT_NE(mine.record.session, theirs.record.session);
}

TEST_F(World, AnAgentsKeyIsForItsAgentOnly) {
  const CodeAnswer other = execute(a_, code("1", "turn", "other"));
  control::Caller agent = a_;
  agent.key.kind = core::KeyKind::agent;
  agent.key.agent = "agent";
  Staying caller(io_.get_executor());
  EXPECT_EQ(run(sandboxes_->execute(agent, code("1", "", "other"), caller)).error().code,
            Code::denied);
  EXPECT_EQ(run(sandboxes_->find(agent, other.record.session)).error().code, Code::not_found);
  EXPECT_EQ(run(sandboxes_->end_turn(agent, "other", "turn")).error().code, Code::denied);
  EXPECT_TRUE(execute(agent, code("1", "turn")).ok());
  EXPECT_THAT(run(sandboxes_->list(agent, true)).value(), SizeIs(1));
}

TEST_F(World, CallsOfATurnQueueBehindEachOther) {
  execute(a_, code("log = []", "turn"));
  int left = 4;
  Staying caller(io_.get_executor());
  for (int n = 0; n < 4; ++n) {
    control::start_task(
        io_,
        [](Staying& stays, const control::Caller& who, int& rest, int number,
           Sandboxes& all) -> net::Task<void> {
          const auto answer = co_await all.execute(
              who, code("import time; log.append('+'); time.sleep(0.1); log.append('-')", "turn"),
              stays);
          EXPECT_TRUE(answer && answer->ok()) << number;
          --rest;
        }(caller, a_, left, n, *sandboxes_));
  }
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  while (left > 0 && !deadline.passed()) io_.run_one_for(std::chrono::seconds(1));
  EXPECT_EQ(execute(a_, code("print(''.join(log))", "turn")).out, "+-+-+-+-\n");
}

TEST_F(World, BreakersEndWhatGoesTooFar) {
  auto tight = core::usual_template(core::Tier::standard);
  tight.calls_limit = 2;
  tight.cpu_seconds_limit = 100;
  ASSERT_TRUE(
      run(db_->run([&](store::Store& store) { return store.put_template(a_.tenant.id, tight); })));
  EXPECT_TRUE(execute(a_, code("1", "turn")).ok());
  EXPECT_TRUE(execute(a_, code("1", "turn")).ok());
  const CodeAnswer third = execute(a_, code("1", "turn"));
  EXPECT_EQ(third.error, "SandboxCapExceeded");
  EXPECT_EQ(third.dimension, "session_calls");
  EXPECT_EQ(counts(a_)["tenant_daily"], 2U);
  machines_.cpu = 101;
  run(sandboxes_->end_due());
  EXPECT_THAT(machines_.all, IsEmpty());
}

TEST_F(World, CommandsAreCountedAndRecordedAsCodeIs) {
  const auto session = run(sandboxes_->create(a_, {.agent = "agent"}));
  ASSERT_TRUE(session) << session.error().text();
  CodeRequest request;
  request.session = session->id;
  request.command = Command{.shell = "echo out; echo err >&2; exit 3"};
  const CodeAnswer answer = execute(a_, request);
  EXPECT_EQ(answer.out, "out\n");
  EXPECT_EQ(answer.err, "err\n");
  EXPECT_EQ(answer.exit_code, 3);
  EXPECT_EQ(answer.record.exit_status, ExitStatus::error);
  EXPECT_EQ(counts(a_)["tenant_daily"], 1U);
  EXPECT_THAT(records(a_), SizeIs(1));
  EXPECT_TRUE(run(sandboxes_->end(a_, session->id)));
  EXPECT_THAT(machines_.all, IsEmpty());
}

struct Crash {};

// TW-24: whatever step the server ends at, a call that was counted has one row, and its session is
// taken up or ended.
TEST_F(World, TW24_EveryCountedCallHasOneRowWhereverTheServerEnds) {
  for (const char* step : {"call.planned", "call.counted", "session.launched", "session.verified",
                           "call.ready", "call.running", "call.ran", "call.recorded"}) {
    clock_.pass(core::Seconds(1));  // the newest record is the last one
    const std::size_t before = records(a_).size();
    const std::uint64_t counted = counts(a_)["tenant_daily"];
    services_->steps = control::Steps([step](std::string_view point) {
      if (point == step) throw Crash();
    });
    Staying caller(io_.get_executor());
    const std::string turn = std::string("turn-") + step;
    EXPECT_THROW((void)run(sandboxes_->execute(a_, code("print(1)", turn), caller)), Crash) << step;
    services_->steps = {};
    restart();
    const auto rows = records(a_);
    EXPECT_EQ(rows.size() - before, counts(a_)["tenant_daily"] - counted) << step;
    if (rows.size() > before && step != std::string("call.recorded"))
      EXPECT_EQ(rows[0].exit_status, ExitStatus::error) << step;
    EXPECT_THAT(
        run(db_->run([](const store::Store& store) { return store.open_invocations(); })).value(),
        IsEmpty());
    // The turn works, in the session that lived on or in another.
    EXPECT_TRUE(execute(a_, code("print(1)", turn)).ok()) << step;
    EXPECT_TRUE(run(sandboxes_->end_turn(a_, "agent", turn)).value());
    EXPECT_THAT(machines_.all, IsEmpty()) << step;
  }
}

TEST_F(World, ASessionLivesOnWhenTheServerRestarts) {
  const CodeAnswer before = execute(a_, code("x = 5", "turn"));
  restart();
  const CodeAnswer after = execute(a_, code("print(x)", "turn"));
  EXPECT_EQ(after.out, "5\n");
  EXPECT_EQ(after.record.session, before.record.session);
  EXPECT_EQ(machines_.verified, 2);
}

TEST_F(World, AGuestThatDiesEndsItsSession) {
  execute(a_, code("x = 1", "turn"));
  machines_.all.begin()->second.process->kill();
  const CodeAnswer answer = execute(a_, code("print(x)", "turn"));
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(execute(a_, code("print(2)", "turn")).ok());
}

}  // namespace
}  // namespace firebreak::session
