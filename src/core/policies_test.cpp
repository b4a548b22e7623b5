#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/admission.h"
#include "core/demand.h"
#include "core/idle.h"
#include "core/usage.h"

namespace firebreak::core {
namespace {

using enum MicrovmState;
using testing::HasSubstr;
using testing::IsEmpty;

Time at(std::int64_t seconds) {
  return from_unix_ms(1'800'000'000'000) + Seconds(seconds);
}

Aging running_with(IdlePolicy idle) {
  return {.state = running, .idle = idle, .started = at(0), .state_since = at(0)};
}

constexpr IdlePolicy kMinute{.max_idle = Seconds(60), .suspended = Seconds(600)};

TEST(Idle, SuspendsAfterTheLastTraffic) {
  Activity activity;
  auto due = next_due(running_with(kMinute), activity, at(1));
  ASSERT_TRUE(due);
  EXPECT_EQ(due->action, TimedAction::suspend_idle);
  EXPECT_EQ(due->at, at(60));
  EXPECT_EQ(due->why, "Idle for 60 s.");
  activity.saw_traffic(at(30));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(31))->at, at(90));
  EXPECT_THAT(awake_reason(running_with(kMinute), activity, at(42)), "traffic 12 s ago");
}

TEST(Idle, TheTrafficRuleIsBlindForWork) {
  IdlePolicy policy = kMinute;
  policy.rule = IdleRule::traffic;
  Activity activity;
  activity.begin_work(at(5));
  activity.saw_cpu(at(50));
  EXPECT_EQ(next_due(running_with(policy), activity, at(55))->at, at(60));
}

TEST(Idle, WorkKeepsAwakeUntilTheCap) {
  Activity activity;
  activity.saw_traffic(at(10));
  activity.begin_work(at(10));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(1000))->at, at(1060));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(10 + 3600 + 500))->at, at(10 + 3600 + 60));
  EXPECT_THAT(awake_reason(running_with(kMinute), activity, at(1000)), HasSubstr("1 open"));
}

TEST(Idle, EndedWorkIsASignOfItsOwn) {
  Activity activity;
  activity.begin_work(at(10));
  activity.end_work(at(500));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(501))->at, at(560));
  activity.end_work(at(501));
  EXPECT_EQ(activity.open_work, 0);
}

TEST(Idle, BurstsOfCpuDoNotMoveTheCap) {
  Activity activity;
  for (int t = 100; t < 20'000; t += 50) activity.saw_cpu(at(t));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(20'000))->at, at(100 + 3600 + 60));
  activity.saw_traffic(at(20'000));
  activity.saw_cpu(at(20'010));
  EXPECT_EQ(next_due(running_with(kMinute), activity, at(20'011))->at, at(20'070));
  EXPECT_THAT(awake_reason(running_with(kMinute), activity, at(20'011)), "CPU busy 1 s ago");
}

TEST(Idle, AResumedMicrovmBeginsAnew) {
  Aging aging = running_with(kMinute);
  aging.state_since = at(5000);
  Activity activity;
  activity.saw_traffic(at(20));
  EXPECT_EQ(next_due(aging, activity, at(5001))->at, at(5060));
  EXPECT_THAT(awake_reason(aging, activity, at(5001)), "started or resumed 1 s ago");
}

TEST(Idle, SuspendedAndOldOnesEnd) {
  Aging aging{.state = suspended, .idle = kMinute, .started = at(0), .suspended_at = at(100)};
  EXPECT_EQ(next_due(aging, {}, at(101))->at, at(700));
  EXPECT_EQ(next_due(aging, {}, at(101))->action, TimedAction::terminate_suspended);
  aging.max_duration = Seconds(700);
  EXPECT_EQ(next_due(aging, {}, at(101))->action, TimedAction::terminate_old);
  EXPECT_EQ(next_due(aging, {}, at(101))->why, "Maximum duration of 700 s reached.");
  aging.state = running;
  aging.max_duration = Seconds(30);
  EXPECT_EQ(next_due(aging, {}, at(1))->at, at(30));
}

TEST(Idle, NoClockRunsWithoutPolicyOrInOtherStates) {
  EXPECT_FALSE(next_due({.state = running}, {}, at(1)));
  EXPECT_FALSE(next_due({.state = suspended}, {}, at(1)));
  EXPECT_FALSE(next_due(running_with({.max_idle = Seconds(0)}), {}, at(1)));
  for (MicrovmState state : {pending, suspending, terminating, terminated}) {
    EXPECT_FALSE(
        next_due({.state = state, .idle = kMinute, .max_duration = Seconds(1)}, {}, at(99)));
  }
  EXPECT_THAT(awake_reason({.state = running}, {}, at(1)), "no idle policy");
}

TEST(Idle, PolicyBounds) {
  EXPECT_TRUE(check(IdlePolicy{}));
  EXPECT_TRUE(check(kMinute));
  EXPECT_FALSE(check({.max_idle = Seconds(-1)}));
  EXPECT_FALSE(check({.max_idle = Seconds(8 * 24 * 3600)}));
  EXPECT_FALSE(check({.suspended = Seconds(-1)}));
  EXPECT_THAT(check({.max_idle = Seconds(5)}, {.shortest_idle = Seconds(60)}).error().message,
              HasSubstr("60 to 604800"));
  for (IdleRule rule : {IdleRule::traffic, IdleRule::work})
    EXPECT_EQ(parse_idle_rule(to_string(rule)), rule);
  EXPECT_FALSE(parse_idle_rule("x"));
}

constexpr std::uint64_t kMib = 1024UL * 1024;

TEST(Usage, CountsEachMomentOnce) {
  std::mt19937_64 random(7);
  Meter meter{.until = at(0)};
  Time now = at(0);
  std::uint64_t cpu = 0;
  for (int i = 0; i < 1000; ++i) {
    now += Millis(random() % 5000);
    cpu += random() % 1'000'000;
    Sample sample{.now = now, .cpu_counter_usec = cpu, .memory_bytes = 600 * kMib, .bytes_in = 3};
    advance(meter, kSizes[0], sample);
    // The same moment again adds nothing.
    sample.bytes_in = 0;
    advance(meter, kSizes[0], sample);
  }
  const auto elapsed = static_cast<std::uint64_t>((now - at(0)).count());
  EXPECT_EQ(meter.total.running_ms, elapsed);
  EXPECT_EQ(meter.total.cpu_usec, cpu);
  EXPECT_EQ(meter.total.memory_mib_ms, elapsed * 600);
  EXPECT_EQ(meter.total.bytes_in, 3000U);
  EXPECT_EQ(meter.total.suspended_mib_ms, 0U);
}

TEST(Usage, TheBaselineIsTheLeast) {
  Meter meter{.until = at(0)};
  advance(meter, kSizes[0], {.now = at(1), .cpu_counter_usec = 100'000, .memory_bytes = kMib});
  EXPECT_EQ(meter.total.memory_mib_ms, 512'000U);
  EXPECT_EQ(meter.total.cpu_over_usec, 0U);
  // A quarter CPU is the share of a second: 250 ms.
  advance(meter, kSizes[0], {.now = at(2), .cpu_counter_usec = 100'000 + 400'000});
  EXPECT_EQ(meter.total.cpu_over_usec, 150'000U);
}

TEST(Usage, AClockSetBackCountsNothingTwice) {
  Meter meter{.until = at(0)};
  advance(meter, kSizes[0], {.now = at(100), .cpu_counter_usec = 5});
  advance(meter, kSizes[0], {.now = at(40), .cpu_counter_usec = 6});
  EXPECT_EQ(meter.total.running_ms, 100'000U);
  EXPECT_EQ(meter.total.cpu_usec, 6U);
  advance(meter, kSizes[0], {.now = at(101), .cpu_counter_usec = 6});
  EXPECT_EQ(meter.total.running_ms, 101'000U);
}

TEST(Usage, ANewProcessBeginsItsCounterAnew) {
  Meter meter{.until = at(0)};
  advance(meter, kSizes[0], {.now = at(10), .cpu_counter_usec = 1'000});
  advance(meter, kSizes[0],
          {.now = at(20), .state = suspended, .saved_bytes = 4 * kMib + 1, .bytes_out = 2});
  EXPECT_EQ(meter.total.suspended_mib_ms, 50'000U);
  EXPECT_EQ(meter.total.running_ms, 10'000U);
  advance(meter, kSizes[0], {.now = at(30), .cpu_counter_usec = 1'500});
  EXPECT_EQ(meter.total.cpu_usec, 2'500U);
  advance(meter, kSizes[0], {.now = at(40), .cpu_counter_usec = 300});
  EXPECT_EQ(meter.total.cpu_usec, 2'800U);
  advance(meter, kSizes[0], {.now = at(50), .state = terminated});
  EXPECT_EQ(meter.total.running_ms, 30'000U);
}

TEST(Usage, AFreshMeterBeginsWithItsFirstSample) {
  Meter meter;
  advance(meter, kSizes[0], {.now = at(10)});
  EXPECT_EQ(meter.total.running_ms, 0U);
  advance(meter, kSizes[0], {.now = at(11)});
  EXPECT_EQ(meter.total.running_ms, 1000U);
}

TEST(Usage, Adds) {
  Usage sum;
  const Usage one{1, 2, 3, 4, 5, 6, 7, 8, 9};
  sum += one;
  sum += one;
  EXPECT_EQ(sum, (Usage{2, 4, 6, 8, 10, 12, 14, 16, 18}));
}

TEST(Admission, SaysWhatIsShort) {
  const HostBudget budget{.memory_mib = 1000, .millicpu = 2000, .overcommit = 4};
  EXPECT_EQ(check_admission(budget, {}, 512, 250), Shortage::none);
  EXPECT_EQ(check_admission(budget, {.baseline_mib = 3488}, 512, 250), Shortage::none);
  EXPECT_EQ(check_admission(budget, {.baseline_mib = 3489}, 512, 250), Shortage::promised_memory);
  EXPECT_EQ(check_admission(budget, {.baseline_millicpu = 31'751}, 512, 250),
            Shortage::promised_cpu);
  const HostUse full{.resident_mib = 1000 - kLaunchMib + 1};
  EXPECT_EQ(check_admission(budget, full, 512, 250), Shortage::resident_memory);
  const Error resident = shortage_error(Shortage::resident_memory, budget, full);
  EXPECT_THAT(resident.message, HasSubstr("905 of 1000 MiB in use"));
  EXPECT_EQ(resident.reason, "host_full");
  for (auto shortage : {Shortage::promised_memory, Shortage::promised_cpu})
    EXPECT_THAT(shortage_error(shortage, budget, full).repair, HasSubstr("raise overcommit"));
}

TEST(Admission, GivesUpTheCheapestFirst) {
  using Kind = Reclaimable::Kind;
  const std::vector<Reclaimable> all{{Kind::microvm, "young", at(50), 100},
                                     {Kind::base, "base", at(90), 300},
                                     {Kind::microvm, "old", at(10), 100},
                                     {Kind::parked, "parked", at(99), 50}};
  auto names = [&](std::uint64_t needed) {
    std::string out;
    for (const auto& victim : choose_victims(all, needed, "")) out += victim.id + " ";
    return out;
  };
  EXPECT_EQ(names(0), "");
  EXPECT_EQ(names(1), "parked ");
  EXPECT_EQ(names(51), "parked base ");
  EXPECT_EQ(names(351), "parked base old ");
  EXPECT_EQ(names(550), "parked base old young ");
  EXPECT_EQ(names(551), "");
}

TEST(Admission, TakesFromWhoHoldsMost) {
  using Kind = Reclaimable::Kind;
  const auto microvm = [](std::string id, int used, std::string tenant, bool working = false) {
    return Reclaimable{Kind::microvm, std::move(id), at(used), 100, std::move(tenant), working};
  };
  std::vector<Reclaimable> all{microvm("small", 1, "small"), microvm("big1", 20, "big"),
                               microvm("big2", 30, "big"), microvm("big3", 40, "big")};
  auto names = [&](std::uint64_t needed, const std::string& requester) {
    std::string out;
    for (const auto& victim : choose_victims(all, needed, requester)) out += victim.id + " ";
    return out;
  };
  // The longest unused is of a tenant that holds less than who asks: it stays.
  EXPECT_EQ(names(1, "big"), "big1 ");
  EXPECT_EQ(names(300, "big"), "big1 big2 big3 ");
  // Who has little may take from who has much, until they have the same.
  EXPECT_EQ(names(1, "small"), "big1 ");
  EXPECT_EQ(names(1, "new"), "big1 ");
  EXPECT_EQ(names(200, "new"), "big1 big2 ");
  // Never what somebody works with, but for the owner's own launches.
  for (Reclaimable& one : all) one.working = true;
  EXPECT_EQ(names(1, "new"), "");
  EXPECT_EQ(names(1, "small"), "small ");
  // A host that is full already has no choice.
  EXPECT_EQ(names(101, ""), "big1 big2 ");
  EXPECT_EQ(names(400, ""), "big1 big2 small big3 ");
}

TEST(Admission, NeverTakesWhatStaysButCountsIt) {
  using Kind = Reclaimable::Kind;
  const std::vector<Reclaimable> all{
      {Kind::microvm, "stays", at(1), 300, "big", false, true},
      {Kind::microvm, "wakes", at(20), 100, "big", false, false},
      {Kind::microvm, "other", at(10), 100, "small", false, false},
  };
  const auto first = choose_victims(all, 1, "");
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].id, "wakes") << "its tenant holds most";
  EXPECT_EQ(choose_victims(all, 200, "").size(), 2U);
  EXPECT_THAT(choose_victims(all, 201, ""), IsEmpty());
}

TEST(Demand, FollowsTheBusiestMoment) {
  Demand demand;
  const PoolBounds bounds{.least = 1, .most = 8};
  EXPECT_EQ(demand.target(bounds, at(0)), 1U);
  for (int i = 0; i < 4; ++i) demand.launched(at(i));
  EXPECT_EQ(demand.target(bounds, at(10)), 5U);
  demand.launched(at(20));
  EXPECT_EQ(demand.target(bounds, at(500)), 5U);
  EXPECT_EQ(demand.target(bounds, at(601)), 2U);
  EXPECT_EQ(demand.target(bounds, at(700)), 1U);
  for (int i = 0; i < 100; ++i) demand.launched(at(800));
  EXPECT_EQ(demand.target(bounds, at(801)), 8U);
  EXPECT_EQ(demand.target({.least = 3, .most = 0}, at(9999)), 3U);
}

TEST(Demand, SurvivesAClockSetBack) {
  Demand demand;
  for (int i = 0; i < 20; ++i) demand.launched(at(1'000'000));
  demand.launched(at(0));
  EXPECT_EQ(demand.target({.least = 1, .most = 8}, at(1)), 2U);
}

}  // namespace
}  // namespace firebreak::core
