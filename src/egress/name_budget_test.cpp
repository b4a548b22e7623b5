// Which names count against a budget, and how they are counted.
#include "egress/name_budget.h"

#include <gtest/gtest.h>

#include "egress/resolver.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;

TEST(NameBudget, ForgetsAfterAWhileAndHasATotal) {
  using Clock = NameBudget::Clock;
  NameBudget budget({.per_rule = 2, .total = 3, .period = 60min});
  const auto start = Clock::time_point{} + 1h;
  EXPECT_TRUE(budget.take("policy:1", "a", start));
  EXPECT_TRUE(budget.take("policy:1", "b", start + 30min));
  EXPECT_FALSE(budget.take("policy:1", "c", start + 31min));
  EXPECT_TRUE(budget.take("policy:1", "a", start + 31min));
  EXPECT_TRUE(budget.take("policy:2", "c", start + 31min));
  EXPECT_FALSE(budget.take("policy:3", "d", start + 31min)) << "three in all";
  EXPECT_TRUE(budget.take("policy:1", "d", start + 60min)) << "a is forgotten";
  EXPECT_FALSE(budget.take("policy:1", "a", start + 60min));
}

core::EgressPolicy policy_of(std::string_view rules) {
  auto policy =
      core::egress_policy_from_json(R"({"name":"web","rules":)" + std::string(rules) + "}");
  EXPECT_TRUE(policy) << policy.error().text();
  return policy.value_or(core::EgressPolicy{});
}

TEST(JudgeName, OnlyNamesThatNoRuleSpellsOutAreCounted) {
  const auto exact = policy_of(R"([{"action":"allow","domain":"a.x.test","ports":[443]}])");
  const auto below = policy_of(R"([{"action":"allow","domain":"*.x.test","ports":[443]}])");
  const auto counted = [](const core::EgressPolicy& maximum, const core::EgressPolicy& policy) {
    const NameVerdict verdict = judge_name({.maximum = maximum, .policy = policy}, "A.x.test");
    EXPECT_TRUE(verdict.decision.allowed);
    return verdict.wildcard;
  };
  const core::EgressPolicy all = core::internet_egress();
  EXPECT_FALSE(counted(all, all));
  EXPECT_FALSE(counted(all, exact));
  EXPECT_TRUE(counted(all, below));
  EXPECT_TRUE(counted(below, all));
  EXPECT_TRUE(counted(below, below));
  EXPECT_FALSE(counted(below, exact));
  EXPECT_FALSE(counted(exact, below));
}

}  // namespace
}  // namespace firebreak::egress
