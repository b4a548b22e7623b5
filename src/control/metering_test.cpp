#include "control/metering.h"

#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using core::MicrovmState;

class Metering : public FakeWorld {
 protected:
  Metering() {
    vm_.set_machine(std::make_shared<FakeMachine>(host_, "one"));
    host_.usage["one"] = {.cpu_usec = 900'000, .memory_bytes = 1 << 20};
  }
  void run() {
    begin_running(vm_, clock_.now());
    rewrite_state(vm_, MicrovmState::running);
  }
  core::Usage& total() { return vm_.used.meter.total; }

  LiveMicrovm vm_{io_.get_executor(), {}, {}, *core::size_for(512)};
};

TEST_F(Metering, WhatACloneUsedBeforeItWasSomebodysIsNotBilled) {
  rewrite_state(vm_, MicrovmState::pending);
  EXPECT_FALSE(account(vm_, clock_.now()));
  run();
  clock_.pass(10s);
  host_.usage["one"].cpu_usec += 100;
  EXPECT_TRUE(account(vm_, clock_.now()));
  EXPECT_EQ(total().cpu_usec, 100U);
  EXPECT_EQ(total().cpu_over_usec, 0U);
  EXPECT_EQ(total().running_ms, 10'000U);
}

TEST_F(Metering, TrafficIsCountedOnceItCan) {
  rewrite_state(vm_, MicrovmState::pending);
  vm_.used.bytes_in = 5;
  EXPECT_FALSE(account(vm_, clock_.now()));
  run();
  const auto usage = host_.usage.extract("one");
  vm_.used.bytes_out = 7;
  clock_.pass(1s);
  EXPECT_FALSE(account(vm_, clock_.now()));
  host_.usage["one"] = usage.mapped();
  clock_.pass(1s);
  EXPECT_TRUE(account(vm_, clock_.now()));
  EXPECT_EQ(total().bytes_in, 5U);
  EXPECT_EQ(total().bytes_out, 7U);
  EXPECT_EQ(total().running_ms, 2'000U);
}

TEST_F(Metering, ASuspendedOnePaysForItsDiskUntilItsEnd) {
  run();
  rewrite_state(vm_, MicrovmState::suspended);
  vm_.forget_machine();
  vm_.used.stored_bytes = 3 << 20;
  clock_.pass(4s);
  rewrite_state(vm_, MicrovmState::terminating);
  vm_.used.bytes_in = 1;
  EXPECT_TRUE(account(vm_, clock_.now(), true));
  EXPECT_EQ(total().suspended_mib_ms, 3U * 4000);
  EXPECT_EQ(total().running_ms, 0U);
  EXPECT_EQ(total().bytes_in, 1U);
}

TEST_F(Metering, AResumeDoesNotLoseWhereItsCounterStands) {
  run();
  rewrite_state(vm_, MicrovmState::suspended);  // its record follows
  clock_.pass(1s);
  EXPECT_FALSE(account(vm_, clock_.now()));
  rewrite_state(vm_, MicrovmState::running);
  EXPECT_TRUE(account(vm_, clock_.now()));
  EXPECT_EQ(total().cpu_usec, 0U);
}

TEST_F(Metering, TheLastIntervalCountsAlsoWithoutAProcess) {
  run();
  host_.usage.clear();
  rewrite_state(vm_, MicrovmState::terminating);
  clock_.pass(2s);
  EXPECT_TRUE(account(vm_, clock_.now(), true));
  EXPECT_EQ(total().running_ms, 2'000U);
}

}  // namespace
}  // namespace firebreak::control
