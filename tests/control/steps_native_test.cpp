// Every transition, harmed at every step: the server crashes there and another takes over, the step
// fails, or the store refuses a write. Whatever happened, records and host agree afterwards, and
// nothing is lost that need not be. Each case also checks, at every call that changes the host,
// that the store says what is about to be done.
#include <gtest/gtest.h>

#include "control/control_world.h"

namespace firebreak::testing_support {
namespace {

using core::MicrovmState;
using States = std::set<MicrovmState>;

// One transition: how a world is made ready for it, what is asked for, and how the microVM may be
// afterwards.
struct Transition {
  std::function<void(ControlWorld&)> prepare;
  std::function<void(ControlWorld&)> act;
  States after_crash;
  States after_failure;
  // How it was before: after a crash that nothing was written before, it still is.
  MicrovmState before;
};

void launch_named(ControlWorld& world) {
  control::LaunchRequest request;
  request.name = "first";
  (void)world.launch(std::move(request));
}

core::MicrovmId first(ControlWorld& world) {
  for (const core::Microvm& vm : world.records())
    if (vm.name == "first") return vm.id;
  return {};
}

void suspend(ControlWorld& world) {
  (void)world.run(world.supervisor().suspend(world.tenant.id, first(world), world.soon()));
}

void resume(ControlWorld& world) {
  (void)world.run(world.supervisor().resume(world.tenant.id, first(world), world.soon()));
}

void terminate(ControlWorld& world) {
  (void)world.run(world.supervisor().terminate(world.tenant.id, first(world), world.soon()));
}

// Until the children run, or have ended.
void fork(ControlWorld& world) {
  const auto made = world.run(world.supervisor().fork(world.tenant, first(world), 2, world.soon()));
  if (!made || !*made) return;
  for (const core::Microvm& child : **made)
    (void)world.run(world.supervisor().wait_started(world.tenant.id, child.id, world.soon()));
}

void nothing(ControlWorld&) {}

const std::map<std::string, Transition>& transitions() {
  using S = MicrovmState;
  static const std::map<std::string, Transition> table{
      {"launch", {nothing, launch_named, {S::running}, {S::running, S::terminated}, S::pending}},
      {"suspend",
       {launch_named,
        suspend,
        {S::suspended},
        {S::running, S::suspended, S::terminated},
        S::running}},
      {"resume",
       {[](ControlWorld& world) {
          launch_named(world);
          suspend(world);
        },
        resume,
        {S::running, S::suspended},
        {S::running, S::suspended, S::terminated},
        S::suspended}},
      {"fork", {launch_named, fork, {S::running}, {S::running}, S::running}},
      {"terminate", {launch_named, terminate, {S::terminated}, {S::terminated}, S::running}},
      {"terminate asleep",
       {[](ControlWorld& world) {
          launch_named(world);
          suspend(world);
        },
        terminate,
        {S::terminated},
        {S::terminated},
        S::suspended}},
  };
  return table;
}

class EachStep : public testing::TestWithParam<std::string> {
 protected:
  const Transition& transition() const { return transitions().at(GetParam()); }

  // The steps of a run that nobody harms.
  std::vector<std::string> steps() const {
    ControlWorld world;
    transition().prepare(world);
    world.watch();
    transition().act(world);
    world.expect_settled();
    return world.steps();
  }

  static void expect_first(ControlWorld& world, const States& allowed) {
    for (const core::Microvm& vm : world.records()) {
      if (vm.name != "first") continue;
      EXPECT_TRUE(allowed.contains(vm.state)) << to_string(vm.state) << ": " << vm.state_reason;
    }
  }
};

TEST_P(EachStep, ACrashLosesNothing) {
  const std::vector<std::string> all = steps();
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE("crash at step " + std::to_string(i) + ": " + all[i]);
    ControlWorld world;
    transition().prepare(world);
    world.harm(i, ControlWorld::Harm::crash);
    transition().act(world);
    ASSERT_TRUE(world.until([&] { return world.crashed(); }));
    world.crash();
    world.start();
    world.expect_settled();
    expect_first(world, transition().after_crash);
  }
}

TEST_P(EachStep, AFailureLeavesRecordsAndHostAgreed) {
  const std::vector<std::string> all = steps();
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Named steps cannot fail.
    if (!all[i].ends_with(" begins") && !all[i].ends_with(" done") && !all[i].starts_with("hook "))
      continue;
    SCOPED_TRACE("failure of step " + std::to_string(i) + ": " + all[i]);
    ControlWorld world;
    transition().prepare(world);
    world.harm(i, ControlWorld::Harm::refuse);
    transition().act(world);
    world.expect_settled();
    expect_first(world, transition().after_failure);
  }
}

TEST_P(EachStep, AStoreThatRefusesWritesForAWhileLeavesRecordsAndHostAgreed) {
  constexpr int kMany = 1000;
  int writes = 0;
  {
    ControlWorld world;
    transition().prepare(world);
    world.disk().refuse_after(kMany);
    transition().act(world);
    writes = kMany - world.disk().left();
  }
  ASSERT_GT(writes, 0);
  for (int i = 0; i < writes; ++i) {
    SCOPED_TRACE("the store refuses everything after write " + std::to_string(i));
    ControlWorld world;
    transition().prepare(world);
    world.disk().refuse_after(i);
    world.be_impatient();
    transition().act(world);
    world.disk().heal();
    world.expect_settled();
    expect_first(world, transition().after_failure);
  }
}

// A server that crashes while it cannot write: the next one finds only what was written before.
TEST_P(EachStep, ACrashWhileTheStoreRefusesWritesLosesNoRecord) {
  constexpr int kMany = 1000;
  int writes = 0;
  {
    ControlWorld world;
    transition().prepare(world);
    world.disk().refuse_after(kMany);
    transition().act(world);
    writes = kMany - world.disk().left();
  }
  for (int i = 0; i < writes; ++i) {
    SCOPED_TRACE("the store refuses everything after write " + std::to_string(i));
    ControlWorld world;
    transition().prepare(world);
    world.disk().refuse_after(i);
    world.be_impatient();
    transition().act(world);
    world.crash();
    world.start();
    world.expect_settled();
    States allowed = transition().after_failure;
    if (i == 0) allowed = {transition().before};
    expect_first(world, allowed);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EachStep, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, transition] : transitions())
                             names.push_back(name);
                           return names;
                         }()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace firebreak::testing_support
