// Ten thousand microVMs that sleep: a launch and a status call look at as many of them as with a
// hundred, which is none. How much CPU the calls take is printed, and compared by whoever reads it.
#include <algorithm>
#include <ctime>
#include <iostream>

#include <gtest/gtest.h>

#include "control/control_world.h"

namespace firebreak::testing_support {
namespace {

// Of all threads: what else the host does is not in it.
double cpu_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct Costs {
  std::vector<double> launch_ms;  // until the record is written
  std::vector<double> status_ms;
  std::uint64_t looked_at = 0;  // other microVMs
};

void measure(ControlWorld& world, Costs& costs) {
  const std::uint64_t before = world.supervisor().live().given();
  control::LaunchRequest request;
  request.image = "a";
  const double began = cpu_ms();
  const auto made = world.run(world.supervisor().launch(world.tenant, request, world.soon()));
  const double launched = cpu_ms();
  ASSERT_TRUE(made && *made);
  const double asked = cpu_ms();
  const auto got = world.run(world.supervisor().get(world.tenant.id, (*made)->id));
  const double answered = cpu_ms();
  ASSERT_TRUE(got && *got);
  costs.looked_at += world.supervisor().live().given() - before;
  costs.launch_ms.push_back(launched - began);
  costs.status_ms.push_back(answered - asked);
  (void)world.run(world.supervisor().terminate(world.tenant.id, (*made)->id, world.soon()));
}

TEST(Scale, ALaunchAndAStatusCallCostTheSameAmongTenThousand) {
  constexpr int kPairs = 30;
  ControlWorld few;
  ControlWorld many;
  few.fill(100);
  many.fill(10'000);
  ASSERT_EQ(few.supervisor().live().size(), 100U);
  ASSERT_EQ(many.supervisor().live().size(), 10'000U);
  for (ControlWorld* world : {&few, &many}) {
    world->set_hooks({});  // the world looks through its store at each
    world->settle();
  }
  Costs with_few;
  Costs with_many;
  for (int i = 0; i < kPairs; ++i) {
    measure(few, with_few);
    measure(many, with_many);
  }
  // The ticker may look at the new one itself, some times in each round; never at the others.
  EXPECT_LE(with_few.looked_at, 20U * kPairs);
  EXPECT_LE(with_many.looked_at, 20U * kPairs);
  std::cout << "median ms of CPU with 100 and 10,000: launch " << median(with_few.launch_ms) << " "
            << median(with_many.launch_ms) << ", status " << median(with_few.status_ms) << " "
            << median(with_many.status_ms) << std::endl;
}

}  // namespace
}  // namespace firebreak::testing_support
