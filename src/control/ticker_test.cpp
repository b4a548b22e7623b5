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

core::HostUse walked(const LiveMicrovms& live) {
  core::HostUse use;
  for (const LivePtr& vm : live.all()) use += use_of(*vm);
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
    rewrite(*vm, [](core::Microvm& record) {
      record.idle = core::IdlePolicy{.max_idle = 3600s, .suspended = 3600s};
    });
    vm->used.meter.until = clock_.now();
    host_.usage[vm->record().id.str()] = {};
    vm->set_machine(std::make_shared<FakeMachine>(host_, vm->record().id.str()));
    return vm;
  }
  LivePtr sleeping(int number) {
    LivePtr vm = make(number, MicrovmState::suspended);
    rewrite(*vm, [](core::Microvm& record) {
      record.idle = core::IdlePolicy{.max_idle = 60s, .suspended = 86400s};
    });
    vm->used.stored_bytes = 1 << 20;
    return vm;
  }

  struct Cost {
    std::uint64_t admission = 0;
    std::uint64_t tick = 0;
  };
  // Of one admission and of one tick, with so many microVMs of which `awake` are metered.
  Cost cost(int microvms, int awake) {
    LiveMicrovms live;
    WarmPool pool(*services_, [] { return true; });
    Transitions transitions(*services_, live, pool.foreground());
    Capacity capacity(*services_, live, pool, transitions.suspending);
    Ticker ticker(*services_, live, transitions, capacity);
    for (int i = 0; i < microvms; ++i) live.add(i < awake ? running(i) : sleeping(i));
    turn(ticker);  // the first one looks at those that are new
    clock_.pass(services_->options.meter_every);
    Cost cost;
    std::uint64_t before = live.given();
    turn(ticker);
    cost.tick = live.given() - before;
    before = live.given();
    auto room = run_task(
        io_, capacity.admit(core::TenantId("tenant-1"), *core::size_for(512), Deadline::in(10s)));
    EXPECT_TRUE(room) << room.error().text();
    cost.admission = live.given() - before;
    room->release();
    expect_same(live.use(), walked(live));
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
  LiveMicrovms live;
  WarmPool pool(*services_, [] { return true; });
  Transitions transitions(*services_, live, pool.foreground());
  Capacity capacity(*services_, live, pool, transitions.suspending);
  Ticker ticker(*services_, live, transitions, capacity);
  const LivePtr vm = running(1);
  const LivePtr asleep = sleeping(2);
  live.add(vm);
  live.add(asleep);
  turn(ticker);
  EXPECT_EQ(live.given(), 2U);
  turn(ticker);
  EXPECT_EQ(live.given(), 2U) << "nothing is due";
  // Its meter is read, and what it uses is counted.
  host_.usage[vm->record().id.str()] = {.cpu_usec = 5'000'000, .memory_bytes = 300UL << 20};
  clock_.pass(services_->options.meter_every);
  turn(ticker);
  EXPECT_EQ(live.given(), 3U);
  EXPECT_EQ(live.use().resident_mib, 300U);
  EXPECT_EQ(vm->used.activity.last_cpu, clock_.now());
  EXPECT_EQ(metrics_.value("firebreak_microvms", obs::label("state", "RUNNING")), 1);
  EXPECT_EQ(metrics_.value("firebreak_microvms", obs::label("state", "SUSPENDED")), 1);
  // A policy that changes is looked at at once.
  rewrite(*asleep, [](core::Microvm& record) { record.idle->suspended = 7200s; });
  live.note(*asleep);
  turn(ticker);
  EXPECT_EQ(live.given(), 4U);
}

TEST_F(TickerTest, SumsAreWhatAWalkFinds) {
  LiveMicrovms live;
  std::vector<LivePtr> all;
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto below = [&random](std::uint32_t n) {
    return static_cast<std::uint32_t>(random()) % n;
  };
  for (int i = 0; i < 50; ++i) {
    all.push_back(make(i, MicrovmState::pending));
    live.add(all.back());
  }
  for (int step = 0; step < 2000; ++step) {
    LiveMicrovm& vm = *all[below(50)];
    switch (below(5)) {
      case 0:
        rewrite_state(vm, static_cast<MicrovmState>(below(6)));
        live.note(vm);
        break;
      case 1:
        rewrite(vm, [&](core::Microvm& record) {
          record.intent = below(2) == 0 ? core::Intent::resume : core::Intent::none;
        });
        live.note(vm);
        break;
      case 2:
        vm.set_waking(!vm.waking());
        live.recount(vm);
        break;
      case 3:
        vm.used.memory_bytes = below(1 << 30);
        live.recount(vm);
        break;
      default:
        if (live.find(vm.record().id))
          live.remove(vm.record().id);
        else
          live.add(all[static_cast<std::size_t>(std::stoi(vm.record().id.str().substr(8)))]);
    }
    expect_same(live.use(), walked(live));
  }
}

}  // namespace
}  // namespace firebreak::control
