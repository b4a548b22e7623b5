// Whom a change of one microVM wakes: those who wait for it, and nobody else.
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/journal.h"
#include "control/task_test_support.h"
#include "net/task_group.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;

class Waking : public FakeWorld {
 protected:
  // One that is written in the store as well, so that it can be changed.
  LivePtr add(int number) {
    core::Microvm record;
    record.id = core::MicrovmId("microvm-" + std::to_string(number));
    record.tenant = tenant_.id;
    record.endpoint = core::EndpointId(core::new_uuid());
    record.image = core::ImageId("image-a");
    record.image_version = 1;
    record.memory_mib = 512;
    record.intent = core::Intent::launch;
    record.started = record.state_since = clock_.now();
    auto created = run_task(io_, db_->run([&](store::Store& store) {
      return store.create_microvm(record, core::TenantLimits{});
    }));
    EXPECT_TRUE(created) << created.error().text();
    auto vm = std::make_shared<LiveMicrovm>(io_.get_executor(), created->microvm,
                                            core::ImageVersion{}, *core::size_for(512));
    live_.add(vm);
    return vm;
  }

  void SetUp() override {
    const core::Image image{.id = core::ImageId("image-a"), .tenant = tenant_.id, .name = "a"};
    const core::ImageVersion version{.image = image.id, .number = 1};
    auto made = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(tenant_));
      FB_TRY(store.create_image(image));
      return store.create_version(version);
    }));
    ASSERT_TRUE(made) << made.error().text();
  }

  const core::Tenant tenant_{core::TenantId("tenant-a"), "a", {}, {}};
  LiveMicrovms live_;
};

TEST_F(Waking, AChangeWakesOnlyThoseWhoWaitForThatMicrovm) {
  constexpr int kMicrovms = 20;
  Journal journal({.db = *db_,
                   .clock = clock_,
                   .log = log_,
                   .metrics = metrics_,
                   .live = live_,
                   .changed = services_->changed});
  std::vector<LivePtr> all;
  for (int i = 0; i < kMicrovms; ++i) all.push_back(add(i));
  std::vector<int> woken(kMicrovms);
  net::TaskGroup waiters(io_.get_executor());
  auto wait = [](LivePtr vm, int& count) -> net::Task<void> {
    for (;;) {
      (void)co_await vm->changed.wait(Deadline::in(60s));
      ++count;
    }
  };
  for (int i = 0; i < kMicrovms; ++i)
    waiters.spawn("waiter",
                  wait(all[static_cast<std::size_t>(i)], woken[static_cast<std::size_t>(i)]));
  while (io_.poll_one() > 0) {
  }
  auto changed = run_task(io_, journal.commit(*all[7], {.state = core::MicrovmState::terminating,
                                                        .intent = core::Intent::terminate,
                                                        .reason = "a test"}));
  ASSERT_TRUE(changed) << changed.error().text();
  while (io_.poll_one() > 0) {
  }
  for (int i = 0; i < kMicrovms; ++i)
    EXPECT_EQ(woken[static_cast<std::size_t>(i)], i == 7 ? 1 : 0) << i;
}

}  // namespace
}  // namespace firebreak::control
