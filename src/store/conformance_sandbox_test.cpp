// Templates, policies, caps, sessions and records of calls. Tests that show a requirement of the
// sandbox contract are named by it (TW-n).
#include <latch>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using core::Dimension;
using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;

core::SandboxTemplate sample_template(int n) {
  core::SandboxTemplate value;
  value.name = "template-" + std::to_string(n);
  value.image = "image-" + std::to_string(n);
  value.environment = "internal-only";
  value.languages = {"bash", "python"};
  value.call_limit = core::Seconds(n + 1);
  value.tags = {{"k", "v"}};
  return value;
}

core::SandboxSession sample_session(int n, const core::TenantId& tenant) {
  return {.id = core::SessionId("session-" + std::to_string(n)),
          .tenant = tenant,
          .agent = "agent",
          .turn = "turn-" + std::to_string(n),
          .with = sample_template(n),
          .microvm = core::MicrovmId("microvm-" + std::to_string(n)),
          .key = core::KeyId("AKIA" + std::to_string(n)),
          .created = at(n),
          .last_call = at(n + 1),
          .calls = 3,
          .ended = std::nullopt,
          .end_reason = ""};
}

core::Invocation sample_invocation(int n, const core::TenantId& tenant) {
  return {.id = core::InvocationId("invocation-" + std::to_string(n)),
          .tenant = tenant,
          .agent = "agent-" + std::to_string(n % 2),
          .turn = "turn",
          .session = core::SessionId("session-" + std::to_string(n % 3)),
          .template_name = "template",
          .language = "python",
          .key = core::KeyId("AKIA1"),
          .code_hash = "hash",
          .code_bytes = 12,
          .started = at(n),
          .expires = at(n) + hours(30 * 24),
          .exit_status = core::ExitStatus::timeout,
          .failure_reason = "it took too long",
          .duration = core::Millis(1234),
          .stdout_bytes = 300'000,
          .stderr_bytes = 7,
          .stdout_truncated = true,
          .stderr_truncated = false,
          .stdout_hash = "out",
          .stderr_hash = "err"};
}

core::CapAsk ask_for(Dimension dimension, core::Time now, std::uint64_t cap,
                     std::string subject = {}) {
  core::Caps caps;
  caps[dimension] = cap;
  return *core::ask_of(caps, dimension, now, std::move(subject));
}

TEST_P(ImageConformance, KeepsTemplatesOfEachTenant) {
  ASSERT_DONE(store().put_template(a_.id, sample_template(1)));
  ASSERT_DONE(store().put_template(a_.id, sample_template(2)));
  ASSERT_VALUE(auto found, store().find_template(a_.id, "template-1"));
  EXPECT_EQ(found, sample_template(1));
  ASSERT_VALUE(found, store().find_template(b_.id, "template-1"));
  EXPECT_FALSE(found);
  auto changed = sample_template(1);
  changed.image = "other";
  ASSERT_DONE(store().put_template(a_.id, changed));
  ASSERT_VALUE(const auto all, store().list_templates(a_.id));
  EXPECT_THAT(all, ElementsAre(changed, sample_template(2)));
  EXPECT_EQ(code_of(store().remove_template(b_.id, "template-1")), Code::not_found);
  ASSERT_DONE(store().remove_template(a_.id, "template-1"));
}

// TW-28: also a program that does not ask core first is refused.
TEST_P(ImageConformance, TW28_TheStoreItselfRefusesLongerRetention) {
  ASSERT_VALUE(auto policy, store().sandbox_policy(a_.id));
  EXPECT_EQ(policy, core::SandboxPolicy());
  policy = core::usual_policy(core::Tier::regulated);
  policy.retention_days = 180;
  ASSERT_DONE(store().set_sandbox_policy(a_.id, policy));
  ASSERT_VALUE(const auto now, store().sandbox_policy(a_.id));
  EXPECT_EQ(now, policy);
  policy.retention_days = 181;
  EXPECT_FALSE(store().set_sandbox_policy(a_.id, policy));
  auto record = sample_invocation(1, a_.id);
  record.expires = record.started + hours(181 * 24);
  EXPECT_FALSE(store().add_invocation(record, std::nullopt));
  ASSERT_VALUE(const auto kept, store().find_invocation(a_.id, record.id));
  EXPECT_FALSE(kept);
}

// TW-15, TW-16, TW-19.
TEST_P(ImageConformance, TW16_CountsBothOrNeither) {
  const auto both = [&](core::Time now, std::uint64_t daily, std::uint64_t hourly) {
    return store().take_caps(a_.id, {ask_for(Dimension::tenant_daily, now, daily),
                                     ask_for(Dimension::agent_hourly, now, hourly, "x")});
  };
  for (int n = 0; n < 2; ++n) {
    ASSERT_VALUE(const auto refused, both(at(0), 1000, 2));
    EXPECT_FALSE(refused);
  }
  ASSERT_VALUE(auto refused, both(at(1), 1000, 2));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->dimension, Dimension::agent_hourly);
  EXPECT_EQ(refused->used, 2U);
  EXPECT_EQ(refused->resets_at, core::end_of(core::Window::hour, at(1)));
  ASSERT_VALUE(const auto counts, store().cap_counts(a_.id, core::Time{}));
  EXPECT_THAT(
      counts,
      ElementsAre(
          CapCount{Dimension::agent_hourly, "x", core::begin_of(core::Window::hour, at(0)), 2},
          CapCount{Dimension::tenant_daily, "", core::begin_of(core::Window::day, at(0)), 2}));
  // TW-19: nothing passes a cap of 0, also when nothing was counted yet.
  ASSERT_VALUE(refused, both(at(0) + hours(48), 0, 2));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->dimension, Dimension::tenant_daily);
  EXPECT_EQ(refused->used, 0U);
  // Another tenant has counters of its own.
  ASSERT_VALUE(const auto other,
               store().take_caps(b_.id, {ask_for(Dimension::agent_hourly, at(1), 1, "x")}));
  EXPECT_FALSE(other);
  ASSERT_VALUE(const auto gone, store().forget_caps(at(0) + hours(48)));
  EXPECT_EQ(gone, 3U);
}

// Many clients on several connections, while the clock walks over hours and days: no window is ever
// overshot, and none that was asked for enough stays below its cap.
TEST_P(ImageConformance, TW16_NobodyOvershootsWhileTheClockCrossesHoursAndDays) {
  constexpr int kClients = 4;
  constexpr int kSteps = 60;
  constexpr std::uint64_t kDaily = 40;
  constexpr std::uint64_t kHourly = 9;
  const core::Time start = core::begin_of(core::Window::day, at(0)) + hours(22);
  std::latch ready(kClients);
  std::atomic<std::uint64_t> passed{0};
  {
    std::vector<std::jthread> clients;
    for (int who = 0; who < kClients; ++who) {
      clients.emplace_back([&, who] {
        auto mine = store().connect();
        ASSERT_TRUE(mine) << mine.error().text();
        std::mt19937 random(static_cast<std::uint32_t>(who));
        ready.arrive_and_wait();
        for (int n = 0; n < kSteps; ++n) {
          // Each has a clock of its own, a little apart from the others'.
          const core::Time now = start + core::Seconds(240 * n + static_cast<int>(random() % 90));
          const std::string agent = random() % 2 == 0 ? "a" : "b";
          const auto refused =
              (*mine)->take_caps(a_.id, {ask_for(Dimension::tenant_daily, now, kDaily),
                                         ask_for(Dimension::agent_hourly, now, kHourly, agent)});
          ASSERT_TRUE(refused) << refused.error().text();
          if (!*refused) ++passed;
        }
      });
    }
  }
  ASSERT_VALUE(const auto counts, store().cap_counts(a_.id, core::Time{}));
  std::uint64_t daily = 0;
  std::uint64_t hourly = 0;
  for (const CapCount& count : counts) {
    const bool day = count.dimension == Dimension::tenant_daily;
    EXPECT_LE(count.count, day ? kDaily : kHourly);
    (day ? daily : hourly) += count.count;
  }
  EXPECT_EQ(daily, passed.load());
  EXPECT_EQ(hourly, passed.load());
  EXPECT_GT(daily, kDaily);  // of two days
}

TEST_P(ImageConformance, ATurnHasOneSessionThatLives) {
  auto one = sample_session(1, a_.id);
  ASSERT_DONE(store().create_session(one));
  auto second = sample_session(2, a_.id);
  second.turn = one.turn;
  EXPECT_EQ(code_of(store().create_session(second)), Code::conflict);
  auto others = sample_session(3, b_.id);
  others.turn = one.turn;
  ASSERT_DONE(store().create_session(others));
  ASSERT_VALUE(auto found, store().find_session(a_.id, one.id));
  EXPECT_EQ(found, one);
  ASSERT_VALUE(found, store().find_session(b_.id, one.id));
  EXPECT_FALSE(found);
  one.calls = 9;
  one.microvm = core::MicrovmId("microvm-x");
  one.ended = at(10);
  one.end_reason = "done";
  ASSERT_DONE(store().change_session(one));
  EXPECT_EQ(code_of(store().change_session(one)), Code::conflict);
  ASSERT_DONE(store().create_session(second));
  ASSERT_VALUE(const auto live, store().list_sessions(a_.id, false, 10));
  EXPECT_THAT(live, ElementsAre(second));
  ASSERT_VALUE(const auto all, store().list_sessions(a_.id, true, 10));
  EXPECT_THAT(all, ElementsAre(second, one));
  ASSERT_VALUE(const auto living, store().live_sessions());
  EXPECT_EQ(living.size(), 2U);
  ASSERT_VALUE(const auto gone, store().forget_sessions(at(11)));
  EXPECT_EQ(gone, 1U);
}

// TW-24: an intent becomes a record, once.
TEST_P(ImageConformance, TW24_AnIntentBecomesOneRecord) {
  const auto call = sample_invocation(1, a_.id);
  ASSERT_DONE(store().open_invocation(call));
  EXPECT_EQ(code_of(store().open_invocation(call)), Code::conflict);
  ASSERT_VALUE(auto open, store().open_invocations());
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open.front().code_hash, call.code_hash);
  EXPECT_EQ(open.front().expires, call.expires);
  const InvocationOutput output{.out = std::string("a\0b", 3), .err = "c"};
  ASSERT_DONE(store().add_invocation(call, output));
  ASSERT_VALUE(open, store().open_invocations());
  EXPECT_THAT(open, IsEmpty());
  EXPECT_EQ(code_of(store().add_invocation(call, std::nullopt)), Code::conflict);
  // TW-25: everything is kept.
  ASSERT_VALUE(const auto found, store().find_invocation(a_.id, call.id));
  EXPECT_EQ(found, call);
  ASSERT_VALUE(const auto foreign, store().find_invocation(b_.id, call.id));
  EXPECT_FALSE(foreign);
  ASSERT_VALUE(auto kept, store().invocation_output(a_.id, call.id));
  EXPECT_EQ(kept, output);
  ASSERT_VALUE(kept, store().invocation_output(b_.id, call.id));
  EXPECT_FALSE(kept);
}

TEST_P(ImageConformance, ListsRecordsTheNewestFirst) {
  for (int n = 0; n < 6; ++n)
    ASSERT_DONE(store().add_invocation(sample_invocation(n, a_.id), std::nullopt));
  const auto ids = [&](const InvocationFilter& filter, std::optional<int> after,
                       std::uint32_t limit) {
    std::optional<core::InvocationId> last;
    if (after) last = sample_invocation(*after, a_.id).id;
    std::string text;
    auto list = store().list_invocations(a_.id, filter, last, limit);
    EXPECT_TRUE(list) << list.error().text();
    for (const auto& each : *list) text += each.id.str().back();
    return text;
  };
  EXPECT_EQ(ids({}, std::nullopt, 4), "5432");
  EXPECT_EQ(ids({}, 2, 4), "10");
  EXPECT_EQ(ids({.agent = "agent-1"}, std::nullopt, 10), "531");
  EXPECT_EQ(ids({.session = core::SessionId("session-2")}, std::nullopt, 10), "52");
  EXPECT_EQ(ids({.status = core::ExitStatus::ok}, std::nullopt, 10), "");
  ASSERT_VALUE(const auto other, store().list_invocations(b_.id, {}, std::nullopt, 10));
  EXPECT_THAT(other, IsEmpty());
}

// TW-28: what is older than its retention goes; what is not stays, also without its tenant.
TEST_P(ImageConformance, TW28_RecordsGoWhenTheyExpireAndNotWithTheirTenant) {
  ASSERT_DONE(store().add_invocation(sample_invocation(1, a_.id), InvocationOutput{"x", "y"}));
  ASSERT_DONE(store().add_invocation(sample_invocation(2, b_.id), std::nullopt));
  ASSERT_DONE(store().remove_tenant(a_.id));
  const auto record = sample_invocation(1, a_.id);
  ASSERT_VALUE(auto kept, store().find_invocation(a_.id, record.id));
  EXPECT_TRUE(kept);
  ASSERT_VALUE(const auto output, store().invocation_output(a_.id, record.id));
  EXPECT_FALSE(output);
  ASSERT_VALUE(auto gone, store().forget_invocations(record.expires - core::Millis(1), 100));
  EXPECT_EQ(gone, 0U);
  ASSERT_VALUE(gone, store().forget_invocations(record.expires, 100));
  EXPECT_EQ(gone, 1U);
  ASSERT_VALUE(kept, store().find_invocation(a_.id, record.id));
  EXPECT_FALSE(kept);
}

// TW-24, TW-16: the intent and the counters are one transaction.
TEST_P(ImageConformance, TW24_AFailedTransactionCountsNothing) {
  {
    ASSERT_VALUE(auto all, store().begin(Access::write, Deadline::in(std::chrono::seconds(60))));
    ASSERT_VALUE(const auto refused,
                 store().take_caps(a_.id, {ask_for(Dimension::tenant_daily, at(0), 5)}));
    EXPECT_FALSE(refused);
    ASSERT_DONE(store().open_invocation(sample_invocation(1, a_.id)));
  }
  ASSERT_VALUE(const auto counts, store().cap_counts(a_.id, core::Time{}));
  EXPECT_THAT(counts, IsEmpty());
  ASSERT_VALUE(const auto open, store().open_invocations());
  EXPECT_THAT(open, IsEmpty());
}

}  // namespace
}  // namespace firebreak::store
