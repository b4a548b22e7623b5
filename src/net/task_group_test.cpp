#include "net/task_group.h"

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;

class TaskGroupTest : public testing::Test {
 protected:
  // Counts when it ends, however.
  Task<void> sleep() {
    struct Ends {
      explicit Ends(int& count) : ended(count) {}
      ~Ends() { ++ended; }
      Ends(const Ends&) = delete;
      Ends& operator=(const Ends&) = delete;
      int& ended;
    };
    const Ends ends(ended_);
    ++started_;
    Event never(io_.get_executor());
    for (;;) (void)co_await never.wait(Deadline::in(60s));
  }
  void settle() {
    while (io_.poll_one() > 0) {
    }
  }

  asio::io_context io_;
  int started_ = 0;
  int ended_ = 0;
};

TEST_F(TaskGroupTest, CloseCancelsAndJoins) {
  TaskGroup group(io_.get_executor());
  for (int i = 0; i < 3; ++i) group.spawn("sleeper", sleep());
  settle();
  EXPECT_EQ(started_, 3);
  EXPECT_EQ(group.size(), 3U);
  bool closed = false;
  asio::co_spawn(
      io_, [&]() -> Task<void> { closed = co_await group.close(Deadline::in(10s)); },
      [](const std::exception_ptr&) {});
  settle();
  EXPECT_TRUE(closed);
  EXPECT_EQ(ended_, 3);
  EXPECT_EQ(group.size(), 0U);
  group.spawn("sleeper", sleep());
  settle();
  EXPECT_EQ(started_, 3) << "nothing starts after the close";
}

TEST_F(TaskGroupTest, EndedTasksAreForgotten) {
  TaskGroup group(io_.get_executor());
  for (int i = 0; i < 100; ++i) group.spawn("short", []() -> Task<void> { co_return; }());
  group.spawn("throws", []() -> Task<void> {
    throw std::runtime_error("its own matter");
    co_return;
  }());
  settle();
  EXPECT_EQ(group.size(), 0U);
}

// The log's lines of what a body does.
std::string logged(const std::function<void(obs::Log&)>& body) {
  auto pipe = sys::pipe();
  obs::Log log(pipe->second.get(), obs::LogFormat::text, obs::Level::info);
  body(log);
  pipe->second.reset();
  std::string out(4096, '\0');
  const ssize_t n = ::read(pipe->first.get(), out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

TEST_F(TaskGroupTest, WhatATaskThrowsIsLoggedAndCounted) {
  obs::Metrics metrics;
  const std::string lines = logged([&](obs::Log& log) {
    TaskGroup group(io_.get_executor(), obs::Exceptions(log, metrics));
    auto fails = []() -> Task<void> {
      throw std::runtime_error("a bug");
      co_return;
    };
    group.spawn("launch", fails(), "microvm-1");
    settle();
  });
  EXPECT_NE(lines.find("exception where=launch context=microvm-1 error=\"a bug\""),
            std::string::npos)
      << lines;
  EXPECT_EQ(metrics.value("firebreak_exceptions_total", obs::label("where", "launch")), 1);
}

TEST_F(TaskGroupTest, BeingToldToEndIsNoException) {
  obs::Metrics metrics;
  const std::string lines = logged([&](obs::Log& log) {
    TaskGroup group(io_.get_executor(), obs::Exceptions(log, metrics));
    group.spawn("sleeper", sleep());
    settle();
    group.cancel();
    settle();
  });
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(lines, "");
  EXPECT_EQ(metrics.value("firebreak_exceptions_total", obs::label("where", "sleeper")), 0);
}

TEST_F(TaskGroupTest, WaitLetsThemEndByThemselves) {
  TaskGroup group(io_.get_executor());
  Event go(io_.get_executor());
  auto patient = [&]() -> Task<void> {
    (void)co_await go.wait(Deadline::in(60s));
    ++ended_;
  };
  group.spawn("patient", patient());
  bool all = false;
  asio::co_spawn(
      io_, [&]() -> Task<void> { all = co_await group.wait(Deadline::in(60s)); },
      [](const std::exception_ptr&) {});
  settle();
  EXPECT_FALSE(all);
  go.notify();
  settle();
  EXPECT_TRUE(all);
  EXPECT_EQ(ended_, 1);
}

// A task that ends by itself between the cancelling and its delivery.
TEST_F(TaskGroupTest, MayGoWhileTasksEnd) {
  auto group = std::make_unique<TaskGroup>(io_.get_executor());
  Event event(io_.get_executor());
  auto wait = [&]() -> Task<void> {
    (void)co_await event.wait(Deadline::in(60s));
    ++ended_;
  };
  group->spawn("waiter", wait());
  settle();
  event.notify();
  group.reset();
  settle();
  EXPECT_LE(ended_, 1);
}

TEST_F(TaskGroupTest, CloseGivesUpAtTheDeadline) {
  TaskGroup group(io_.get_executor());
  asio::thread_pool pool(1);
  std::atomic<bool> release = false;
  auto stubborn = [&]() -> Task<void> {
    auto work = [&] {
      release.wait(false);
      return 0;
    };
    (void)co_await run_blocking(pool, work);
  };
  group.spawn("stubborn", stubborn());
  settle();
  std::optional<bool> closed;
  asio::co_spawn(
      io_,
      [&]() -> Task<void> {
        closed = co_await group.close(Deadline::in(20ms));
        release = true;
        release.notify_all();
      },
      [](const std::exception_ptr&) {});
  while (!closed || group.size() > 0) io_.run_one_for(10ms);
  EXPECT_FALSE(*closed);
  pool.join();
}

}  // namespace
}  // namespace firebreak::net
