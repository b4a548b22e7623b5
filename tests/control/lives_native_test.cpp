// What happens to microVMs in their lives, on a fake engine with real agents: by callers, by the
// host's memory, by time, and by the guest itself.
#include <gmock/gmock.h>

#include "control/control_world.h"

namespace firebreak::testing_support {
namespace {

using core::MicrovmState;
using testing::HasSubstr;

class Lives : public testing::Test {
 protected:
  MicrovmState state(const core::MicrovmId& id) { return world_.record(id).state; }
  std::string reason(const core::MicrovmId& id) { return world_.record(id).state_reason; }
  bool reaches(const core::MicrovmId& id, MicrovmState wanted) {
    return world_.until([&] {
      const control::LivePtr vm = world_.supervisor().live().find(id);
      return vm ? vm->state() == wanted : wanted == MicrovmState::terminated;
    });
  }
  template <class T>
  Result<T> done(net::Task<Result<T>> task) {
    auto result = world_.run(std::move(task));
    EXPECT_TRUE(result) << "it does not end";
    return result ? *std::move(result) : fail(Code::timeout, "it does not end");
  }
  static Deadline soon() { return Deadline::in(std::chrono::seconds(20)); }
  control::Supervisor& supervisor() { return world_.supervisor(); }
  const core::TenantId& tenant() const { return world_.tenant.id; }
  void start_again() {
    world_.crash();
    world_.start();
  }

  ControlWorld world_;
};

// ------------------------------------------------------------------------------------- by callers

TEST_F(Lives, ManyCallersOfOneThatSleepsWakeItOnce) {
  const auto id = world_.launch();
  ASSERT_TRUE(id && done(supervisor().suspend(tenant(), *id, soon())));
  world_.watch();
  int held = 0;
  const auto call = [](control::Supervisor& supervisor, core::TenantId tenant, core::MicrovmId vm,
                       int& count) -> net::Task<void> {
    const auto lease = co_await supervisor.acquire(tenant, vm, soon());
    EXPECT_TRUE(lease) << lease.error().text();
    ++count;
  };
  for (int i = 0; i < 5; ++i) world_.spawn(call(supervisor(), tenant(), *id, held));
  EXPECT_TRUE(world_.until([&] { return held == 5; }));
  EXPECT_EQ(std::ranges::count(world_.steps(), "resume begins"), 1);
  world_.expect_settled();
}

TEST_F(Lives, OneThatOnlyAResumeWakesRefusesCallersAndSaysSo) {
  control::LaunchRequest request;
  request.idle = core::IdlePolicy{
      .max_idle = core::Seconds(600), .suspended = core::Seconds(600), .auto_resume = false};
  const auto id = world_.launch(std::move(request));
  ASSERT_TRUE(id && done(supervisor().suspend(tenant(), *id, soon())));
  const auto lease = done(supervisor().acquire(tenant(), *id, soon()));
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, Code::conflict);
  EXPECT_THAT(lease.error().message, HasSubstr("resume it first"));
  EXPECT_EQ(state(*id), MicrovmState::suspended);
}

TEST_F(Lives, TheSameClientTokenIsTheSameMicrovm) {
  control::LaunchRequest request;
  request.client_token = "token";
  const auto one = world_.launch(request);
  const auto two = world_.launch(request);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
  EXPECT_EQ(world_.host().restored, 1);
}

TEST_F(Lives, TerminateDoesNotWaitForAGuestThatStarts) {
  control::LaunchRequest request;
  request.image = "a";
  world_.hold_hooks(true);
  const auto made = done(supervisor().launch(world_.tenant, request, soon()));
  ASSERT_TRUE(made);
  ASSERT_TRUE(world_.until([&] { return world_.held_hooks() == 1; }));
  EXPECT_TRUE(done(supervisor().terminate(tenant(), made->id, soon())));
  world_.hold_hooks(false);
  EXPECT_EQ(state(made->id), MicrovmState::terminated);
  world_.expect_settled();
}

TEST_F(Lives, AnUpdateIsKeptByTheNextServer) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  control::MicrovmUpdate update;
  update.name = "other";
  update.max_duration = std::optional<core::Seconds>(core::Seconds(77));
  ASSERT_TRUE(done(supervisor().update(tenant(), *id, update, soon())));
  start_again();
  const core::Microvm found = world_.record(*id);
  EXPECT_EQ(found.name, "other");
  EXPECT_EQ(found.max_duration, core::Seconds(77));
}

TEST_F(Lives, AForkThatFindsNoRoomLeavesNoChild) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  world_.options().budget = {.memory_mib = 1200, .millicpu = 64000, .overcommit = 1};
  start_again();
  const auto made = done(supervisor().fork(world_.tenant, *id, 3, soon()));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::unavailable);
  world_.expect_settled();
  for (const core::Microvm& vm : world_.records())
    if (vm.id != *id) EXPECT_EQ(vm.state, MicrovmState::terminated);
}

// ------------------------------------------------------------------------------------ parked
// clones

TEST_F(Lives, AParkedCloneThatDoesNotWakeIsReplacedByAnother) {
  world_.options().pool = {.least = 1, .most = 1};
  start_again();
  ASSERT_TRUE(world_.launch());  // the pool keeps clones of what is launched
  ASSERT_TRUE(world_.until([&] { return supervisor().pool().parked().size() == 1; }));
  const std::string parked = supervisor().pool().parked().front().id;
  world_.refuse("unpark begins");
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  EXPECT_EQ(id->str(), parked);
  EXPECT_EQ(state(*id), MicrovmState::running);
  EXPECT_TRUE(world_.host().awake.contains(id->str()));
}

TEST_F(Lives, ParkedClonesOfACrashedServerAreRemoved) {
  world_.options().pool = {.least = 2, .most = 2};
  start_again();
  ASSERT_TRUE(world_.launch());
  ASSERT_TRUE(world_.until([&] { return supervisor().pool().parked().size() == 2; }));
  world_.options().pool = {.least = 0, .most = 0};
  start_again();
  world_.expect_settled();
  EXPECT_EQ(world_.host().machines.size(), 1U);
}

// ---------------------------------------------------------------------------------- by the host

TEST_F(Lives, ALaunchThatFindsNoRoomSuspendsTheOneLongestWithoutWork) {
  world_.options().budget = {.memory_mib = 1024, .millicpu = 64000, .overcommit = 1};
  start_again();
  const auto one = world_.launch();
  world_.clock().pass(core::Seconds(1));
  const auto two = world_.launch();
  world_.clock().pass(core::Seconds(1));
  const auto three = world_.launch();
  ASSERT_TRUE(one && two && three);
  EXPECT_EQ(state(*one), MicrovmState::suspended);
  EXPECT_THAT(reason(*one), HasSubstr("the host needs memory"));
  EXPECT_EQ(state(*two), MicrovmState::running);
  EXPECT_EQ(state(*three), MicrovmState::running);
  world_.expect_settled();
}

TEST_F(Lives, ALaunchIsRefusedWithTheReasonWhenNothingCanBeGivenUp) {
  world_.options().budget = {.memory_mib = 600, .millicpu = 64000, .overcommit = 1};
  world_.options().suspend_under_pressure = false;
  start_again();
  ASSERT_TRUE(world_.launch());
  control::LaunchRequest request;
  request.image = "a";
  const auto refused = done(supervisor().launch(world_.tenant, request, soon()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_EQ(world_.records().size(), 1U);
  world_.expect_settled();
}

TEST_F(Lives, ALaunchGivesUpWhenItsVictimCannotBeSuspended) {
  world_.options().budget = {.memory_mib = 600, .millicpu = 64000, .overcommit = 1};
  start_again();
  const auto one = world_.launch();
  ASSERT_TRUE(one);
  world_.refuse("suspend begins");
  control::LaunchRequest request;
  request.image = "a";
  const auto refused = done(supervisor().launch(world_.tenant, request, soon()));
  EXPECT_FALSE(refused);
  world_.refuse("");
  EXPECT_EQ(state(*one), MicrovmState::running);
  EXPECT_THAT(reason(*one), HasSubstr("Not suspended"));
  world_.expect_settled();
}

TEST_F(Lives, RoomThatAFailedLaunchHadIsFreeAgain) {
  world_.options().budget = {.memory_mib = 600, .millicpu = 64000, .overcommit = 1};
  start_again();
  world_.refuse("restore begins");
  const auto lost = world_.launch();
  ASSERT_TRUE(lost && reaches(*lost, MicrovmState::terminated));
  world_.refuse("");
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  EXPECT_EQ(state(*id), MicrovmState::running);
}

// ------------------------------------------------------------------------------------ by the guest

TEST_F(Lives, AMachineWhoseProcessEndsIsTerminated) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  world_.host().lose(id->str());
  ASSERT_TRUE(reaches(*id, MicrovmState::terminated));
  EXPECT_THAT(reason(*id), HasSubstr("ended unexpectedly"));
  world_.expect_settled();
}

TEST_F(Lives, AnApplicationThatIsPid1EndsItsMicrovmWithItsCode) {
  world_.agents().set_app("echo said; exit 3");
  world_.set_config(core::app_config(true, true));
  const auto id = world_.launch();
  ASSERT_TRUE(id && reaches(*id, MicrovmState::terminated));
  EXPECT_EQ(reason(*id), "Container Stopped with Exit Code: 3");
  world_.expect_settled();
}

TEST_F(Lives, AGuestThatAnswersNobodyCanBeTerminated) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  world_.set_hooks(core::Hooks());
  start_again();
  world_.agents().stand_still(id->str());
  EXPECT_TRUE(done(supervisor().terminate(tenant(), *id, soon())));
  world_.expect_settled();
}

TEST_F(Lives, AHookThatRefusesTheSuspendEndsTheMicrovmWithItsAnswer) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  world_.refuse("hook suspend");
  EXPECT_FALSE(done(supervisor().suspend(tenant(), *id, soon())));
  EXPECT_EQ(state(*id), MicrovmState::terminated);
  EXPECT_THAT(reason(*id), HasSubstr("HTTP status 500"));
}

// --------------------------------------------------------------------------------------- by time

TEST_F(Lives, OneThatDoesNothingIsSuspendedAndLaterTerminated) {
  control::LaunchRequest request;
  request.idle = core::IdlePolicy{.max_idle = core::Seconds(600), .suspended = core::Seconds(900)};
  const auto id = world_.launch(std::move(request));
  ASSERT_TRUE(id);
  world_.clock().pass(core::Seconds(590));
  world_.settle();
  EXPECT_EQ(state(*id), MicrovmState::running);
  world_.clock().pass(core::Seconds(20));
  ASSERT_TRUE(reaches(*id, MicrovmState::suspended));
  world_.clock().pass(core::Seconds(910));
  ASSERT_TRUE(reaches(*id, MicrovmState::terminated));
  world_.expect_settled();
}

TEST_F(Lives, AnOldOneIsTerminatedAlsoByTheNextServer) {
  control::LaunchRequest request;
  request.max_duration = core::Seconds(3600);
  const auto id = world_.launch(std::move(request));
  ASSERT_TRUE(id);
  start_again();
  EXPECT_EQ(state(*id), MicrovmState::running);
  world_.clock().pass(core::Seconds(3601));
  ASSERT_TRUE(reaches(*id, MicrovmState::terminated));
  world_.expect_settled();
}

TEST_F(Lives, OneThatIsUsedIsNotIdle) {
  control::LaunchRequest request;
  request.idle = core::IdlePolicy{.max_idle = core::Seconds(600), .suspended = core::Seconds(900)};
  const auto id = world_.launch(std::move(request));
  ASSERT_TRUE(id);
  {
    const auto lease = done(supervisor().acquire(tenant(), *id, soon()));
    ASSERT_TRUE(lease);
    world_.clock().pass(core::Seconds(2000));
    world_.settle();
    EXPECT_EQ(state(*id), MicrovmState::running);
  }
  world_.clock().pass(core::Seconds(601));
  EXPECT_TRUE(reaches(*id, MicrovmState::suspended));
}

// A removal that fails is tried again, and the microVM is TERMINATING until then.
TEST_F(Lives, AMachineThatCannotBeRemovedIsTriedAgain) {
  const auto id = world_.launch();
  ASSERT_TRUE(id);
  world_.refuse("terminate begins");
  EXPECT_FALSE(done(supervisor().terminate(tenant(), *id, soon())));
  EXPECT_EQ(state(*id), MicrovmState::terminating);
  world_.refuse("");
  EXPECT_TRUE(reaches(*id, MicrovmState::terminated));
  world_.expect_settled();
}

}  // namespace
}  // namespace firebreak::testing_support
