#include "control/retention.h"

#include <gmock/gmock.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using enum core::MicrovmState;
using testing::IsEmpty;
using testing::SizeIs;

class Retention : public FakeWorld {
 protected:
  template <class Call>
  auto in_store(Call call) {
    auto done = run_task(io_, db_->run(std::move(call)));
    EXPECT_TRUE(done) << done.error().text();
    return *std::move(done);
  }

  Retention() {
    services_->options.keep_history = 90 * 24h;
    in_store([&](store::Store& store) { return store.create_tenant({tenant_, "t", {}, {}}); });
  }

  void tick() {
    auto body = [](Services& services, const LiveMicrovms& live) -> net::Task<bool> {
      co_await forget_old(services, live);
      co_return true;
    };
    EXPECT_TRUE(run_task(io_, body(*services_, live_)));
  }
  // One that has just started, and used something.
  core::MicrovmId launch(const std::string& name) {
    core::Microvm microvm;
    microvm.id = core::MicrovmId(name);
    microvm.tenant = tenant_;
    microvm.endpoint = core::EndpointId(name);
    microvm.started = microvm.state_since = clock_.now();
    const core::Meter meter{.total = {.running_ms = 1000}, .until = clock_.now()};
    in_store([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_microvm(microvm, {}));
      return store.save_meters({{microvm.id, tenant_, meter}});
    });
    return microvm.id;
  }
  void end(const core::MicrovmId& id) {
    for (const auto state : {terminating, terminated}) {
      in_store([&](store::Store& store) -> Result<> {
        FB_TRY_ASSIGN(const auto found, store.find_microvm(tenant_, id));
        FB_TRY(store.change(
            {.id = id, .expected = found->revision, .state = state, .at = clock_.now()}));
        return {};
      });
    }
  }
  auto rows() {
    return in_store([&](store::Store& store) { return store.usage(tenant_, {}, 10'000); });
  }
  auto days() {
    return in_store([&](store::Store& store) { return store.usage_days(tenant_, {}); });
  }
  std::uint64_t total_ms() {
    return in_store([&](store::Store& store) { return store.usage_total(tenant_, {}); }).running_ms;
  }
  auto events() {
    return in_store(
        [&](store::Store& store) { return store.events(tenant_, std::nullopt, 0, 10'000); });
  }

  core::TenantId tenant_{"100000000001"};
  LiveMicrovms live_;
};

TEST_F(Retention, WhatAnEndedOneUsedIsTheDaysAfterTheTimeAndTheTotalStays) {
  end(launch("one"));
  clock_.pass(24h + 1s);
  tick();
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_THAT(rows(), SizeIs(1));
  clock_.pass(88 * 24h);
  tick();
  EXPECT_THAT(rows(), SizeIs(1));
  EXPECT_THAT(days(), IsEmpty());
  clock_.pass(24h);
  tick();
  EXPECT_THAT(rows(), IsEmpty());
  EXPECT_THAT(days(), SizeIs(1));
  EXPECT_EQ(total_ms(), 1000U);
}

TEST_F(Retention, ALogStaysAsLongAsTheRecordHoweverQuietItWas) {
  const auto id = launch("quiet");
  ASSERT_TRUE(services_->app_log.append(id, wire::FrameType::out, "once"));
  clock_.pass(30 * 24h);
  end(id);
  clock_.pass(23h);
  tick();
  EXPECT_NE(services_->app_log.read(id, 0).value(), "");
  clock_.pass(1h + 1s);
  tick();
  EXPECT_EQ(services_->app_log.read(id, 0).value(), "");
}

TEST_F(Retention, YearsOfMicrovmsLeaveOneRowADay) {
  std::uint64_t launched = 0;
  for (int week = 0; week < 52; ++week) {
    for (int n = 0; n < 3; ++n, ++launched) end(launch(std::to_string(launched)));
    clock_.pass(7 * 24h);
    tick();
    EXPECT_LE(rows().size(), 3U * 13);
  }
  EXPECT_THAT(days(), SizeIs(52 - 12));
  EXPECT_EQ(total_ms(), launched * 1000);
}

TEST_F(Retention, ALivingOneKeepsItsUsageAndLosesOldEvents) {
  const auto id = launch("long");
  clock_.pass(91 * 24h);
  tick();
  EXPECT_THAT(rows(), SizeIs(1));
  EXPECT_THAT(events(), IsEmpty());
  end(id);
  EXPECT_THAT(events(), SizeIs(2));
}

TEST_F(Retention, MoreThanATurnOfTheStoreHoldsIsDoneInSeveral) {
  std::vector<store::UsageRow> many;
  for (int n = 0; n < 2500; ++n) {
    many.push_back({core::MicrovmId("old-" + std::to_string(n)),
                    tenant_,
                    {.total = {.running_ms = 1}, .until = clock_.now()}});
  }
  in_store([&](store::Store& store) { return store.save_meters(many); });
  clock_.pass(91 * 24h);
  tick();
  EXPECT_THAT(rows(), IsEmpty());
  EXPECT_EQ(total_ms(), 2500U);
}

}  // namespace
}  // namespace firebreak::control
