#include "core/caps.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/limits.h"

namespace firebreak::core {
namespace {

using std::chrono::hours;

// Midnight of UTC on some day.
const Time kMidnight = from_unix_ms(1'800'057'600'000);

TEST(Caps, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  std::size_t at = 0;
  for (const CapRule& rule : cap_rules()) {
    EXPECT_EQ(static_cast<std::size_t>(rule.dimension), at++);
    EXPECT_TRUE(names.insert(rule.name).second);
    EXPECT_EQ(parse_dimension(rule.name), rule.dimension);
  }
  EXPECT_FALSE(parse_dimension("tenant_yearly"));
}

TEST(Caps, WindowsAreHoursAndDaysOfUtc) {
  EXPECT_EQ(begin_of(Window::day, kMidnight), kMidnight);
  EXPECT_EQ(begin_of(Window::day, kMidnight + hours(24) - Millis(1)), kMidnight);
  EXPECT_EQ(end_of(Window::day, kMidnight), kMidnight + hours(24));
  EXPECT_EQ(begin_of(Window::hour, kMidnight + hours(5) + Millis(1)), kMidnight + hours(5));
  EXPECT_EQ(end_of(Window::hour, kMidnight + hours(6) - Millis(1)), kMidnight + hours(6));
}

// TW-15: the defaults of the contract.
TEST(Caps, TW15_ATenantBeginsWithAThousandADayAndAHundredAnHour) {
  const Caps usual;
  EXPECT_EQ(usual[Dimension::tenant_daily], 1000U);
  EXPECT_EQ(usual[Dimension::agent_hourly], 100U);
  for (const Dimension other : {Dimension::launches_daily, Dimension::wakes_hourly,
                                Dimension::execs_daily, Dimension::builds_daily}) {
    EXPECT_FALSE(usual[other]);
    EXPECT_FALSE(ask_of(usual, other, kMidnight));
  }
  const auto ask = ask_of(usual, Dimension::agent_hourly, kMidnight + hours(3) + Millis(7), "a");
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask->begin, kMidnight + hours(3));
  EXPECT_EQ(ask->cap, 100U);
  EXPECT_EQ(ask->subject, "a");
}

TEST(Caps, AreSetByNameAndTakenAwayByNull) {
  auto set = limits_from_json(R"({"tenant_daily":0,"execs_daily":5})");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->caps[Dimension::tenant_daily], 0U);
  EXPECT_EQ(set->caps[Dimension::execs_daily], 5U);
  EXPECT_EQ(set->caps[Dimension::agent_hourly], 100U);
  EXPECT_EQ(limits_from_json(to_json(*set)).value(), *set);
  set = limits_from_json(R"({"tenant_daily":null})", *set);
  ASSERT_TRUE(set);
  EXPECT_FALSE(set->caps[Dimension::tenant_daily]);
  EXPECT_EQ(limits_from_json(to_json(*set)).value(), *set);
  EXPECT_FALSE(limits_from_json(R"({"tenant_daily":-1})"));
  EXPECT_FALSE(limits_from_json(R"({"tenant_daily":"many"})"));
}

}  // namespace
}  // namespace firebreak::core
