#include "control/warm_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

// Longer than the pool sleeps when it has nothing to do.
constexpr int kSeveralLooks = 3;

class Pool : public FakeWorld {
 protected:
  Pool() {
    services_->options.pool = {.least = 1, .most = 4};
    pool_.emplace(*services_, [this] { return room_; });
  }
  void TearDown() override {
    auto stop = [this]() -> net::Task<bool> {
      co_await pool_->stop(Deadline::in(5s));
      co_return true;
    };
    run_task(io_, stop());
    EXPECT_THAT(host_.machines, IsEmpty());
  }

  void start() { start_task(io_, pool_->run()); }
  template <class Done>
  bool until(Done done) {
    const Deadline deadline = Deadline::in(10s);
    io_.restart();
    while (!done() && !deadline.passed())
      if (io_.run_one_for(5ms) == 0) clock_.pass(100ms);
    return done();
  }
  void look_several_times() { look(kSeveralLooks); }
  void look(int times) {
    io_.restart();
    for (int i = 0; i < times; ++i) {
      clock_.pass(500ms);
      while (io_.run_one_for(5ms) > 0) {
      }
    }
  }
  std::size_t parked() const { return pool_->parked().size(); }
  static core::ImageVersion version(std::string name) {
    core::ImageVersion made;
    made.image = core::ImageId("image-" + name);
    made.snapshot = std::move(name);
    return made;
  }
  WarmPool::Clone clone(const std::string& id, bool network) {
    host_.machines.insert(id);
    return {std::make_shared<FakeMachine>(host_, id), network, clock_.now()};
  }
  void end(WarmPool::Clone taken) {
    auto body = [](WarmPool::Clone one) -> net::Task<bool> {
      co_return (co_await one.machine->terminate(Deadline::in(5s))).has_value();
    };
    EXPECT_TRUE(run_task(io_, body(std::move(taken))));
  }

  const core::SizeClass size_ = *core::size_for(512);
  bool room_ = true;
  std::optional<WarmPool> pool_;
};

TEST_F(Pool, IsFilledUpToWhatRecentLaunchesAskFor) {
  start();
  pool_->keep(version("a"), size_, false);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  // Three at once: one more than that is kept from now on.
  for (int i = 0; i < 3; ++i) {
    if (auto taken = pool_->take(version("a"), size_, false)) end(*std::move(taken));
  }
  EXPECT_TRUE(until([&] { return parked() == 4; }));
  look_several_times();
  EXPECT_EQ(parked(), 4U);
  // Forgotten after a while.
  clock_.pass(core::Demand::kMemory + 10s);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
}

TEST_F(Pool, OfAnImageOnlyTheNewestVersionIsParked) {
  const auto numbered = [](std::uint32_t number) {
    core::ImageVersion made = version("a");
    made.number = number;
    return made;
  };
  start();
  for (std::uint32_t number = 1; number <= 20; ++number) {
    pool_->keep(numbered(number), size_, false);
    EXPECT_TRUE(until([&] { return host_.restored == static_cast<int>(number); })) << number;
  }
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  // A launch of an older one is restored, and parks nothing.
  EXPECT_FALSE(pool_->take(numbered(3), size_, false));
  look_several_times();
  EXPECT_EQ(parked(), 1U);
  EXPECT_EQ(host_.restored, 20);
  // The newest goes: the one before it takes its place.
  run_task(io_, [&]() -> net::Task<bool> {
    co_await pool_->drop(numbered(20));
    co_return true;
  }());
  EXPECT_TRUE(until([&] { return host_.restored == 21; }));
  if (auto taken = pool_->take(numbered(19), size_, false)) end(*std::move(taken));
}

TEST_F(Pool, ClonesAreMadeByTheEngineOfTheirVersion) {
  FakeHost others;
  FakeEngine other(others, "other");
  engines_.add(other);
  core::ImageVersion of_other = version("a");
  of_other.engine = "other";
  start();
  pool_->keep(of_other, size_, false);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  EXPECT_EQ(others.restored, 1);
  EXPECT_EQ(host_.restored, 0);
  if (auto taken = pool_->take(of_other, size_, false)) end(*std::move(taken));
  run_task(io_, [&]() -> net::Task<bool> {
    co_await pool_->drop(of_other);
    co_return true;
  }());
}

TEST_F(Pool, HasNothingOfAnEngineThatCannotParkOrIsNotThere) {
  host_.features.erase(machine::Feature::park);
  core::ImageVersion absent = version("b");
  absent.engine = "absent";
  start();
  pool_->keep(version("a"), size_, true);
  pool_->keep(absent, size_, true);
  look_several_times();
  EXPECT_EQ(parked(), 0U);
  EXPECT_EQ(host_.restored, 0);
}

TEST_F(Pool, WaitsForWhatUsersWaitFor) {
  std::optional<Foreground> busy(pool_->foreground());
  start();
  pool_->keep(version("a"), size_, false);
  look_several_times();
  EXPECT_EQ(host_.restored, 0);
  busy.reset();
  EXPECT_TRUE(until([&] { return parked() == 1; }));
}

TEST_F(Pool, IsNotFilledWithoutRoom) {
  room_ = false;
  start();
  pool_->keep(version("a"), size_, true);
  look_several_times();
  EXPECT_EQ(host_.restored, 0);
  room_ = true;
  EXPECT_TRUE(until([&] { return parked() == 1; }));
}

TEST_F(Pool, WhatNobodyLaunchesIsEndedOnceAndNotMadeAgain) {
  start();
  pool_->keep(version("pinned"), size_, true);
  pool_->keep(version("stale"), size_, false);
  EXPECT_TRUE(until([&] { return parked() == 2; }));
  clock_.pass(2h);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  look_several_times();
  EXPECT_EQ(host_.restored, 2);
  EXPECT_EQ(host_.ended, 1);
  // A launch makes it one that is kept.
  EXPECT_FALSE(pool_->take(version("stale"), size_, false));
  EXPECT_TRUE(until([&] { return parked() == 3; }));
}

TEST_F(Pool, AVersionThatCannotBeMadeIsTriedLessAndLess) {
  host_.refuse = true;
  start();
  pool_->keep(version("a"), size_, false);
  look_several_times();
  host_.refuse = false;
  look(1);
  EXPECT_EQ(parked(), 0U) << "two seconds after the first failure";
  clock_.pass(3s);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
}

TEST_F(Pool, AnEvictedCloneIsEndedAndOthersStay) {
  pool_->take(version("a"), size_, false);
  pool_->give_back(version("a"), clone("one", false));
  pool_->give_back(version("a"), clone("two", false));
  auto evict = [this]() -> net::Task<bool> {
    co_await pool_->evict("one");
    co_await pool_->evict("never there");
    co_return true;
  };
  run_task(io_, evict());
  EXPECT_THAT(host_.machines, testing::ElementsAre("two"));
  EXPECT_EQ(pool_->ids(), std::set<std::string>{"two"});
}

TEST_F(Pool, ATakenCloneIsKnownUntilItsMachineIsGone) {
  start();
  pool_->keep(version("a"), size_, false);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  auto taken = pool_->take(version("a"), size_, false);
  ASSERT_TRUE(taken);
  const std::string id = taken->machine->id();
  EXPECT_THAT(pool_->ids(), testing::Contains(id));
  end(*std::exchange(taken, std::nullopt));
  EXPECT_THAT(pool_->ids(), testing::Not(testing::Contains(id)));
}

TEST_F(Pool, ADroppedVersionLosesItsClones) {
  start();
  pool_->keep(version("a"), size_, true);
  EXPECT_TRUE(until([&] { return parked() == 1; }));
  auto drop = [this]() -> net::Task<bool> {
    co_await pool_->drop(version("a"));
    co_return true;
  };
  run_task(io_, drop());
  look_several_times();
  EXPECT_EQ(parked(), 0U);
  EXPECT_EQ(host_.restored, 1);
}

TEST_F(Pool, TheCloneThatFitsIsTaken) {
  EXPECT_FALSE(pool_->take(version("a"), size_, false));
  pool_->give_back(version("a"), clone("plain", false));
  pool_->give_back(version("a"), clone("networked", true));
  // One without a network cannot get one.
  auto taken = pool_->take(version("a"), size_, true);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->machine->id(), "networked");
  EXPECT_FALSE(pool_->take(version("a"), size_, true));
  pool_->give_back(version("a"), *std::move(taken));
  // One with a network serves everybody, but only if there is none that costs less.
  taken = pool_->take(version("a"), size_, false);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->machine->id(), "plain");
  end(*std::move(taken));
  taken = pool_->take(version("a"), size_, false);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->machine->id(), "networked");
  end(*std::move(taken));
}

}  // namespace
}  // namespace firebreak::control
