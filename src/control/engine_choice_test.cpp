// A microVM belongs to the engine that its record names: another one never touches it, one that
// this server does not have leaves it waiting, and one that cannot do something refuses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/supervisor.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using core::MicrovmState;
using testing::HasSubstr;
using testing::IsEmpty;

Deadline soon() {
  return Deadline::in(10s);
}

class EngineChoice : public FakeWorld {
 protected:
  EngineChoice() {
    services_->options.budget = {.memory_mib = 65536, .millicpu = 64000};
    services_->options.pool = {.least = 0, .most = 0};
    services_->options.tick = 5ms;
    services_->data_dir = dir_;
    done([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(tenant_));
      FB_TRY(store.create_image({.id = image_, .tenant = tenant_.id, .name = "a"}));
      return {};
    });
  }
  void TearDown() override {
    if (!supervisor_) return;
    auto stop = [this]() -> net::Task<bool> {
      co_await supervisor_->stop(soon());
      co_return true;
    };
    run_task(io_, stop());
  }

  void done(const std::function<Result<>(store::Store&)>& work) {
    auto result = run_task(io_, db_->run(work));
    EXPECT_TRUE(result) << result.error().text();
  }
  void add_version(const std::string& engine) {
    done([&](store::Store& store) {
      return store.create_version({.image = image_,
                                   .number = 1,
                                   .state = core::VersionState::successful,
                                   .active = true,
                                   .snapshot = "a",
                                   .engine = engine});
    });
  }
  // As an earlier server left it.
  core::MicrovmId add_microvm(const std::string& engine, std::vector<MicrovmState> states) {
    core::Microvm microvm;
    microvm.id = core::new_microvm_id();
    microvm.tenant = tenant_.id;
    microvm.endpoint = core::EndpointId(core::new_uuid());
    microvm.image = image_;
    microvm.engine = engine;
    microvm.started = microvm.state_since = clock_.now();
    // Over at once, if time could act on it.
    if (engine == "absent") microvm.max_duration = core::Seconds(0);
    done([&](store::Store& store) -> Result<> {
      FB_TRY_ASSIGN(auto made, store.create_microvm(microvm, {}));
      for (const MicrovmState state : states) {
        FB_TRY_ASSIGN(made.microvm, store.change({.id = microvm.id,
                                                  .expected = made.microvm.revision,
                                                  .state = state,
                                                  .at = clock_.now()}));
      }
      return {};
    });
    return microvm.id;
  }
  void start() {
    supervisor_.emplace(*services_);
    auto started = run_task(io_, supervisor_->start());
    ASSERT_TRUE(started) << started.error().text();
    io_.restart();
    io_.run_for(50ms);  // several ticks
  }
  core::Microvm stored(const core::MicrovmId& id) {
    auto found =
        run_task(io_, db_->run([&](store::Store& store) { return store.find_any_microvm(id); }));
    EXPECT_TRUE(found && *found);
    return found && *found ? **found : core::Microvm{};
  }
  net::Task<Result<>> acquire(core::MicrovmId id) {
    FB_CO_TRY(co_await supervisor_->acquire(tenant_.id, id, soon()));
    co_return Result<>();
  }
  template <class T>
  void expect_refused(net::Task<Result<T>> call, const std::string& what) {
    const auto result = run_task(io_, std::move(call));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::unavailable);
    EXPECT_THAT(result.error().message, HasSubstr(what));
  }

  const core::Tenant tenant_{core::TenantId("tenant-a"), "a", {}, {}};
  const core::ImageId image_{"image-a"};
  FakeHost other_host_;
  FakeEngine other_{other_host_, "other"};
  std::optional<Supervisor> supervisor_;
};

TEST_F(EngineChoice, MicrovmsOfAnEngineThatIsNotHereWaitAndRefuseEverything) {
  add_version("absent");
  const std::vector<core::MicrovmId> ids{
      add_microvm("absent", {}), add_microvm("absent", {MicrovmState::running}),
      add_microvm("absent", {MicrovmState::running, MicrovmState::suspending}),
      add_microvm("absent",
                  {MicrovmState::running, MicrovmState::suspending, MicrovmState::suspended}),
      add_microvm("absent", {MicrovmState::running, MicrovmState::terminating})};
  std::vector<core::Microvm> before;
  for (const core::MicrovmId& id : ids) before.push_back(stored(id));
  start();
  for (const core::MicrovmId& id : ids) {
    expect_refused(acquire(id), "engine absent");
    expect_refused(supervisor_->suspend(tenant_.id, id, soon()), "engine absent");
    expect_refused(supervisor_->resume(tenant_.id, id, soon()), "engine absent");
    expect_refused(supervisor_->fork(tenant_, id, 1, soon()), "engine absent");
    expect_refused(supervisor_->terminate(tenant_.id, id, soon()), "engine absent");
    expect_refused(supervisor_->update(tenant_.id, id, {}, soon()), "engine absent");
    EXPECT_TRUE(run_task(io_, supervisor_->get(tenant_.id, id)));
  }
  expect_refused(supervisor_->launch(tenant_, {.image = "a"}, soon()), "engine absent");
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(stored(ids[i]), before[i]) << i;
}

TEST_F(EngineChoice, RecoveryAsksTheEngineThatTheRecordNames) {
  engines_.add(other_);
  const auto running = add_microvm("other", {MicrovmState::running});
  const auto suspended = add_microvm(
      "other", {MicrovmState::running, MicrovmState::suspending, MicrovmState::suspended});
  other_host_.suspended = {suspended.str(), "nobodys"};
  // The other engine has machines of the same names; they belong to no microVM.
  host_.machines = {running.str()};
  host_.suspended = {suspended.str()};
  start();
  EXPECT_EQ(stored(running).state, MicrovmState::terminated) << "its engine has no machine of it";
  EXPECT_EQ(stored(suspended).state, MicrovmState::suspended);
  EXPECT_THAT(other_host_.suspended, testing::ElementsAre(suspended.str()));
  EXPECT_THAT(host_.machines, IsEmpty());
  EXPECT_THAT(host_.suspended, IsEmpty());
}

TEST_F(EngineChoice, ALaunchIsRecordedWithEngineAndIsolationAndMadeByThatEngine) {
  engines_.add(other_);
  add_version("other");
  other_host_.refuse = true;  // so that the launch ends before an agent is needed
  start();
  LaunchRequest request;
  request.image = "a";
  const auto launched = run_task(io_, supervisor_->launch(tenant_, request, soon()));
  ASSERT_TRUE(launched) << launched.error().text();
  EXPECT_EQ(launched->engine, "other");
  EXPECT_EQ(launched->isolation, other_.isolation());
  const auto ended = run_task(io_, supervisor_->wait_started(tenant_.id, launched->id, soon()));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->state, MicrovmState::terminated);
  EXPECT_EQ(host_.restored, 0);
  const auto events = run_task(io_, db_->run([&](store::Store& store) {
    return store.events(tenant_.id, launched->id, 0, 10);
  }));
  ASSERT_TRUE(events);
  ASSERT_FALSE(events->empty());
  EXPECT_THAT(*events, testing::Each(testing::Field(&core::Event::engine, "other")));
}

TEST_F(EngineChoice, WhatAnEngineCannotDoIsRefusedWithWhatToDoInstead) {
  add_version(engine_.name());
  const auto suspended = add_microvm(
      engine_.name(), {MicrovmState::running, MicrovmState::suspending, MicrovmState::suspended});
  host_.suspended = {suspended.str()};
  host_.features = {};
  start();
  const std::string name = "the engine " + engine_.name();
  expect_refused(supervisor_->fork(tenant_, suspended, 1, soon()), name + " cannot fork");
  expect_refused(supervisor_->suspend(tenant_.id, suspended, soon()), name + " cannot suspend");
  const core::IdlePolicy idle{.max_idle = core::Seconds(60), .suspended = core::Seconds(60)};
  MicrovmUpdate update;
  update.idle = idle;
  expect_refused(supervisor_->update(tenant_.id, suspended, update, soon()), "idle policy");
  LaunchRequest request;
  request.image = "a";
  request.idle = idle;
  expect_refused(supervisor_->launch(tenant_, request, soon()), "idle policy");
  EXPECT_EQ(stored(suspended).state, MicrovmState::suspended);
}

}  // namespace
}  // namespace firebreak::control
