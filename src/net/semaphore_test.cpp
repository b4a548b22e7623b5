#include "net/semaphore.h"

#include <algorithm>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/broadcast.h"

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using testing::ElementsAre;

class Locks : public testing::Test {
 protected:
  static Deadline soon() { return Deadline::in(10s); }

  void spawn(std::function<Task<void>()> body) {
    bodies_.push_back(std::move(body));
    asio::co_spawn(io_, bodies_.back(), [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);
    });
  }
  // Until every task has ended.
  void finish() {
    io_.run_for(20s);
    ASSERT_TRUE(io_.stopped()) << "hung";
  }
  // Takes the lock, notes its name, and gives the lock back after a turn of the loop.
  Task<void> visit(Semaphore& lock, std::string name, Deadline deadline) {
    auto guard = co_await lock.lock(deadline);
    order_.push_back(guard ? name : name + " gave up");
    if (guard) co_await pause(1ms);
  }
  Task<void> pause(std::chrono::milliseconds time) {
    asio::steady_timer timer(io_, time);
    (void)co_await timer.async_wait(kNoThrow);
  }

  asio::io_context io_;
  std::list<std::function<Task<void>()>> bodies_;  // outlive their coroutines
  std::vector<std::string> order_;
};

TEST_F(Locks, ServesInTheOrderOfComing) {
  Mutex lock(io_.get_executor());
  for (const char* name : {"a", "b", "c", "d"})
    spawn([&, name] { return visit(lock, name, soon()); });
  finish();
  EXPECT_THAT(order_, ElementsAre("a", "b", "c", "d"));
}

TEST_F(Locks, LetsSoManyInAtATime) {
  Semaphore lock(io_.get_executor(), 2);
  int inside = 0;
  int most = 0;
  for (int i = 0; i < 6; ++i) {
    spawn([&]() -> Task<void> {
      auto guard = co_await lock.lock(soon());
      EXPECT_TRUE(guard);
      most = std::max(most, ++inside);
      co_await pause(1ms);
      --inside;
    });
  }
  finish();
  EXPECT_EQ(most, 2);
}

TEST_F(Locks, ATimeoutLeavesNoHole) {
  Mutex lock(io_.get_executor());
  spawn([&]() -> Task<void> {
    auto guard = co_await lock.lock(soon());
    co_await pause(30ms);
  });
  spawn([&] { return visit(lock, "impatient", Deadline::in(5ms)); });
  spawn([&] { return visit(lock, "patient", soon()); });
  finish();
  EXPECT_THAT(order_, ElementsAre("impatient gave up", "patient"));
  io_.restart();
  spawn([&] { return visit(lock, "later", soon()); });
  finish();
  EXPECT_EQ(order_.back(), "later");
}

TEST_F(Locks, ADeadlineThatHasPassedStillTakesAFreeLock) {
  Mutex lock(io_.get_executor());
  spawn([&] { return visit(lock, "a", Deadline::in(0s)); });
  finish();
  EXPECT_THAT(order_, ElementsAre("a"));
}

// A client that goes away cancels its task, also one that waits for its turn.
TEST_F(Locks, ACancelledWaiterLeavesNoHole) {
  Mutex lock(io_.get_executor());
  spawn([&]() -> Task<void> {
    auto guard = co_await lock.lock(soon());
    co_await pause(30ms);
  });
  spawn([&]() -> Task<void> { co_await (visit(lock, "gone", soon()) || pause(5ms)); });
  spawn([&] { return visit(lock, "patient", Deadline::in(1s)); });
  finish();
  EXPECT_EQ(order_.back(), "patient");
}

TEST_F(Locks, AGuardReleasesOnceAndMoves) {
  Mutex lock(io_.get_executor());
  spawn([&]() -> Task<void> {
    auto first = co_await lock.lock(soon());
    Semaphore::Guard kept = *std::move(first);
    EXPECT_FALSE(co_await lock.lock(Deadline::in(5ms)));
    kept.release();
    kept.release();
    auto second = co_await lock.lock(Deadline::in(5ms));
    EXPECT_TRUE(second);
    EXPECT_FALSE(co_await lock.lock(Deadline::in(5ms))) << "a second release gave a second permit";
    *second = Semaphore::Guard();
    EXPECT_TRUE(co_await lock.lock(Deadline::in(5ms)));
  });
  finish();
}

TEST_F(Locks, ABroadcastWakesAllWhoWait) {
  Broadcast changed(io_.get_executor());
  bool ready = false;
  int woken = 0;
  for (int i = 0; i < 5; ++i) {
    spawn([&]() -> Task<void> {
      while (!ready) EXPECT_TRUE(co_await changed.wait(soon()));
      ++woken;
    });
  }
  spawn([&]() -> Task<void> {
    co_await pause(5ms);
    changed.notify();  // nothing has changed: they wait on
    co_await pause(5ms);
    EXPECT_EQ(woken, 0);
    ready = true;
    changed.notify();
  });
  finish();
  EXPECT_EQ(woken, 5);
}

TEST_F(Locks, ABroadcastKeepsToTheDeadline) {
  Broadcast changed(io_.get_executor());
  changed.notify();  // before anybody waits: not remembered
  spawn([&]() -> Task<void> { EXPECT_FALSE(co_await changed.wait(Deadline::in(5ms))); });
  finish();
  changed.notify();
}

TEST_F(Locks, ABroadcastIsNotMissedWhileTheConditionIsLookedAt) {
  Broadcast changed(io_.get_executor());
  spawn([&]() -> Task<void> {
    const std::uint64_t seen = changed.count();
    co_await pause(5ms);  // looking takes a while, and meanwhile:
    changed.notify();
    EXPECT_TRUE(co_await changed.wait(Deadline::in(1h), seen));
    EXPECT_FALSE(co_await changed.wait(Deadline::in(5ms), changed.count()));
  });
  finish();
}

}  // namespace
}  // namespace firebreak::net
