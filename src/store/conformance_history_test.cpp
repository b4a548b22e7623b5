#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using core::Seconds;
using enum core::MicrovmState;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kDay = 24 * 3600;

// The beginning of the first whole day of the samples.
core::Time first_day() {
  return std::chrono::ceil<std::chrono::days>(at(0));
}

core::Microvm add(Store& store, const core::Microvm& microvm) {
  auto created = store.create_microvm(microvm, {});
  EXPECT_TRUE(created) << created.error().text();
  return created ? created->microvm : microvm;
}

UsageRow metered(Store& store, int n, const core::TenantId& tenant, core::Time until) {
  UsageRow row = sample_usage(n, tenant);
  row.meter.until = until;
  EXPECT_TRUE(store.save_meters({row}));
  return row;
}

std::uint64_t roll_up(Store& store, core::Time before, std::uint32_t most = 1000) {
  auto done = store.roll_up_usage(before, most);
  EXPECT_TRUE(done) << done.error().text();
  return done.value_or(0);
}

TEST_P(MicrovmConformance, OldUsageBecomesDaysAndTheTotalStays) {
  const auto one = metered(store(), 1, a_.id, first_day());
  const auto two = metered(store(), 2, a_.id, first_day() + Seconds(kDay) - core::Millis(1));
  const auto next = metered(store(), 3, a_.id, first_day() + Seconds(kDay));
  const auto late = metered(store(), 4, a_.id, first_day() + Seconds(2 * kDay));
  const auto other = metered(store(), 5, b_.id, first_day());
  ASSERT_VALUE(const auto before, store().usage_total(a_.id, core::Time{}));
  EXPECT_EQ(roll_up(store(), first_day()), 0U);
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(2 * kDay)), 4U);

  ASSERT_VALUE(auto days, store().usage_days(a_.id, core::Time{}));
  core::Usage both = one.meter.total;
  both += two.meter.total;
  const UsageDay first{.day = first_day(), .microvms = 2, .total = both};
  const UsageDay second{
      .day = first_day() + Seconds(kDay), .microvms = 1, .total = next.meter.total};
  EXPECT_THAT(days, ElementsAre(second, first));
  ASSERT_VALUE(days, store().usage_days(b_.id, core::Time{}));
  EXPECT_THAT(days,
              ElementsAre(UsageDay{.day = first_day(), .microvms = 1, .total = other.meter.total}));
  ASSERT_VALUE(auto rows, store().usage(a_.id, core::Time{}, 100));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].microvm, late.microvm);
  ASSERT_VALUE(auto after, store().usage_total(a_.id, core::Time{}));
  EXPECT_EQ(after, before);

  // Part of a day is the whole day.
  ASSERT_VALUE(days, store().usage_days(a_.id, first_day() + Seconds(kDay + 5)));
  EXPECT_THAT(days, ElementsAre(second));
  ASSERT_VALUE(after, store().usage_total(a_.id, first_day() + Seconds(kDay + 5)));
  both = next.meter.total;
  both += late.meter.total;
  EXPECT_EQ(after, both);
}

TEST_P(MicrovmConformance, ADayGrowsWithWhatIsRolledUpLater) {
  for (int n = 1; n <= 3; ++n) metered(store(), n, a_.id, first_day() + Seconds(n));
  ASSERT_VALUE(const auto before, store().usage_total(a_.id, core::Time{}));
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay), 2), 2U);
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay), 2), 1U);
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay), 2), 0U);
  ASSERT_VALUE(auto days, store().usage_days(a_.id, core::Time{}));
  EXPECT_THAT(days, ElementsAre(UsageDay{.day = first_day(), .microvms = 3, .total = before}));
}

TEST_P(MicrovmConformance, UsageOfALivingMicrovmIsNeverRolledUp) {
  auto living = add(store(), sample_microvm(1, a_.id));
  const auto ended =
      walk(store(), add(store(), sample_microvm(2, a_.id)), {terminating, terminated});
  metered(store(), 1, a_.id, first_day());
  metered(store(), 2, a_.id, first_day());
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay)), 1U);
  ASSERT_VALUE(auto meter, store().meter(living.id));
  EXPECT_TRUE(meter);
  ASSERT_VALUE(meter, store().meter(ended.id));
  EXPECT_FALSE(meter);
  walk(store(), living, {terminating, terminated});
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay)), 1U);
}

TEST_P(MicrovmConformance, DaysGoWithTheirTenant) {
  metered(store(), 1, a_.id, first_day());
  metered(store(), 2, b_.id, first_day());
  EXPECT_EQ(roll_up(store(), first_day() + Seconds(kDay)), 2U);
  ASSERT_DONE(store().remove_tenant(a_.id));
  ASSERT_VALUE(auto days, store().usage_days(a_.id, core::Time{}));
  EXPECT_THAT(days, IsEmpty());
  ASSERT_VALUE(days, store().usage_days(b_.id, core::Time{}));
  EXPECT_EQ(days.size(), 1U);
}

TEST_P(MicrovmConformance, AllIdsAreThoseThatHaveARecord) {
  const auto ended =
      walk(store(), add(store(), sample_microvm(1, a_.id)), {terminating, terminated});
  const auto living = add(store(), sample_microvm(2, b_.id));
  ASSERT_VALUE(auto ids, store().microvm_ids());
  EXPECT_THAT(ids, ElementsAre(ended.id, living.id));
  ASSERT_DONE(store().forget_terminated(at(1000)));
  ASSERT_VALUE(ids, store().microvm_ids());
  EXPECT_THAT(ids, ElementsAre(living.id));
}

TEST_P(MicrovmConformance, OldEventsOfALivingMicrovmAreForgotten) {
  const auto microvm =
      walk(store(), add(store(), sample_microvm(1, a_.id)), {running, suspending, suspended});
  ASSERT_VALUE(const auto all, store().events(a_.id, std::nullopt, 0, 100));
  ASSERT_VALUE(auto gone, store().forget_events(microvm.state_since));
  EXPECT_EQ(gone, 3U);
  ASSERT_VALUE(auto events, store().events(a_.id, std::nullopt, 0, 100));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0], all.back());
  ASSERT_VALUE(gone, store().forget_events(microvm.state_since + core::Millis(1)));
  EXPECT_EQ(gone, 1U);
  ASSERT_VALUE(const auto last, store().last_event());
  EXPECT_GE(last, events[0].sequence);
  ASSERT_VALUE(const auto found, store().find_microvm(a_.id, microvm.id));
  EXPECT_EQ(found, microvm);
}

}  // namespace
}  // namespace firebreak::store
