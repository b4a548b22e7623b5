// What a tick and an admission look at: what is due, however many microVMs there are.
#include "control/ticker.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using core::MicrovmState;

core::HostUse walked(const Registry& registry) {
  core::HostUse use;
  for (const LivePtr& vm : registry.all()) use += use_of(*vm);
  return use;
}

void expect_same(const core::HostUse& a, const core::HostUse& b) {
  EXPECT_EQ(a.resident_mib, b.resident_mib);
  EXPECT_EQ(a.baseline_mib, b.baseline_mib);
  EXPECT_EQ(a.baseline_millicpu, b.baseline_millicpu);
}

class TickerTest : public FakeWorld {
 protected:
  TickerTest() {
    services_->options.budget = {.memory_mib = 1 << 20, .millicpu = 1 << 20, .overcommit = 100};
  }

  LivePtr make(int number, MicrovmState state) {
    core::Microvm record;
    record.id = core::MicrovmId("microvm-" + std::to_string(number));
    record.tenant = core::TenantId("tenant-" + std::to_string(number % 7));
    record.memory_mib = 512;
    record.state = state;
    record.started = record.state_since = clock_.now();
    record.suspended_at = clock_.now();
    return std::make_shared<LiveMicrovm>(io_.get_executor(), std::move(record),
                                         core::ImageVersion{}, *core::size_for(512));
  }
  // One that runs, and that idles out in an hour.
  LivePtr running(int number) {
    LivePtr vm = make(number, MicrovmState::running);
    vm->record.idle = core::IdlePolicy{.max_idle = 3600s, .suspended = 3600s};
    vm->meter.until = clock_.now();
    host_.usage[vm->record.id.str()] = {};
    vm->machine = std::make_shared<FakeMachine>(host_, vm->record.id.str());
    return vm;
  }
  LivePtr sleeping(int number) {
    LivePtr vm = make(number, MicrovmState::suspended);
    vm->record.idle = core::IdlePolicy{.max_idle = 60s, .suspended = 86400s};
    vm->stored_bytes = 1 << 20;
    return vm;
  }

  struct Cost {
    std::uint64_t admission = 0;
    std::uint64_t tick = 0;
  };
  // Of one admission and of one tick, with so many microVMs of which `awake` are metered.
  Cost cost(int microvms, int awake) {
    Registry registry;
    Lifecycle lifecycle(*services_, registry);
    WarmPool pool(*services_, [] { return true; });
    Capacity capacity(*services_, registry, pool, lifecycle);
    Ticker ticker(*services_, registry, lifecycle, capacity);
    for (int i = 0; i < microvms; ++i) registry.add(i < awake ? running(i) : sleeping(i));
    turn(ticker);  // the first one looks at those that are new
    clock_.pass(services_->options.meter_every);
    Cost cost;
    std::uint64_t before = registry.given();
    turn(ticker);
    cost.tick = registry.given() - before;
    before = registry.given();
    auto room = run_task(
        io_, capacity.admit(core::TenantId("tenant-1"), *core::size_for(512), Deadline::in(10s)));
    EXPECT_TRUE(room) << room.error().text();
    cost.admission = registry.given() - before;
    room->release();
    expect_same(registry.use(), walked(registry));
    return cost;
  }
  void turn(Ticker& ticker) {
    auto body = [&]() -> net::Task<bool> {
      co_await ticker.tick();
      co_return true;
    };
    EXPECT_TRUE(run_task(io_, body()));
  }
};

TEST_F(TickerTest, CostsWhatIsDueAndNotHowManyThereAre) {
  constexpr int kAwake = 50;
  const Cost few = cost(100, kAwake);
  const Cost many = cost(10'000, kAwake);
  EXPECT_EQ(few.tick, kAwake) << "those whose meters are due";
  EXPECT_EQ(many.tick, few.tick);
  EXPECT_EQ(few.admission, 0U);
  EXPECT_EQ(many.admission, 0U);
}

TEST_F(TickerTest, LooksAgainWhenItsTimeHasCome) {
  Registry registry;
  Lifecycle lifecycle(*services_, registry);
  WarmPool pool(*services_, [] { return true; });
  Capacity capacity(*services_, registry, pool, lifecycle);
  Ticker ticker(*services_, registry, lifecycle, capacity);
  const LivePtr vm = running(1);
  const LivePtr asleep = sleeping(2);
  registry.add(vm);
  registry.add(asleep);
  turn(ticker);
  EXPECT_EQ(registry.given(), 2U);
  turn(ticker);
  EXPECT_EQ(registry.given(), 2U) << "nothing is due";
  // Its meter is read, and what it uses is counted.
  host_.usage[vm->record.id.str()] = {.cpu_usec = 5'000'000, .memory_bytes = 300UL << 20};
  clock_.pass(services_->options.meter_every);
  turn(ticker);
  EXPECT_EQ(registry.given(), 3U);
  EXPECT_EQ(registry.use().resident_mib, 300U);
  EXPECT_EQ(vm->activity.last_cpu, clock_.now());
  EXPECT_EQ(metrics_.value("firebreak_microvms", obs::label("state", "RUNNING")), 1);
  EXPECT_EQ(metrics_.value("firebreak_microvms", obs::label("state", "SUSPENDED")), 1);
  // A policy that changes is looked at at once.
  asleep->record.idle->suspended = 7200s;
  registry.note(*asleep);
  turn(ticker);
  EXPECT_EQ(registry.given(), 4U);
}

TEST_F(TickerTest, SumsAreWhatAWalkFinds) {
  Registry registry;
  std::vector<LivePtr> all;
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto below = [&random](std::uint32_t n) {
    return static_cast<std::uint32_t>(random()) % n;
  };
  for (int i = 0; i < 50; ++i) {
    all.push_back(make(i, MicrovmState::pending));
    registry.add(all.back());
  }
  for (int step = 0; step < 2000; ++step) {
    LiveMicrovm& vm = *all[below(50)];
    switch (below(5)) {
      case 0:
        vm.record.state = static_cast<MicrovmState>(below(6));
        registry.note(vm);
        break;
      case 1:
        vm.record.intent = below(2) == 0 ? core::Intent::resume : core::Intent::none;
        registry.note(vm);
        break;
      case 2:
        vm.waking = !vm.waking;
        registry.recount(vm);
        break;
      case 3:
        vm.memory_bytes = below(1 << 30);
        registry.recount(vm);
        break;
      default:
        if (registry.find(vm.record.id))
          registry.remove(vm.record.id);
        else
          registry.add(all[static_cast<std::size_t>(std::stoi(vm.record.id.str().substr(8)))]);
    }
    expect_same(registry.use(), walked(registry));
  }
}

}  // namespace
}  // namespace firebreak::control
