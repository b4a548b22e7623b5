#include "control/tenant_queue.h"

#include <list>
#include <optional>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class Queue : public testing::Test {
 protected:
  // Waits for a place, notes that it has it, and keeps it until release().
  struct Visit {
    std::string name;
    bool gave_up = false;
    std::optional<Result<TenantQueue::Place>> place;
  };
  Visit& visit(TenantQueue& queue, const char* tenant, const std::string& name,
               Deadline deadline = Deadline::in(10s)) {
    Visit& one = visits_.emplace_back();
    one.name = name;
    auto body = [](Queue& test, TenantQueue& q, core::TenantId of, Visit& v,
                   Deadline until) -> net::Task<void> {
      v.place.emplace(co_await q.enter(std::move(of), [&v] { return v.gave_up; }, until));
      test.order_.push_back(*v.place ? v.name : v.name + ": " + v.place->error().message);
    };
    net::asio::co_spawn(io_, body(*this, queue, core::TenantId(tenant), one, deadline),
                        [](const std::exception_ptr& thrown) {
                          if (thrown) std::rethrow_exception(thrown);
                        });
    settle();
    return one;
  }
  void release(Visit& visit) {
    visit.place.reset();
    settle();
  }
  void settle() {
    io_.restart();
    io_.poll();
  }

  net::asio::io_context io_;
  std::list<Visit> visits_;
  std::vector<std::string> order_;
};

TEST_F(Queue, TenantsTakeTurnsHoweverOftenOneAsks) {
  TenantQueue queue(io_.get_executor(), 2);
  Visit& a1 = visit(queue, "a", "a1");
  for (const char* name : {"a2", "a3", "a4", "a5"}) visit(queue, "a", name);
  EXPECT_THAT(order_, ElementsAre("a1")) << "one tenant has all places";
  Visit& b1 = visit(queue, "b", "b1");
  visit(queue, "b", "b2");
  visit(queue, "c", "c1");
  EXPECT_THAT(order_, ElementsAre("a1", "b1"));
  release(a1);
  EXPECT_THAT(order_, ElementsAre("a1", "b1", "c1"));
  release(b1);  // a and b have none now; a was served longer ago
  EXPECT_EQ(order_.back(), "a2");
}

TEST_F(Queue, TheOnlyPlaceIsForEverybody) {
  TenantQueue queue(io_.get_executor(), 1);
  visit(queue, "a", "a1");
  EXPECT_THAT(order_, ElementsAre("a1"));
}

TEST_F(Queue, OneWhoGivesUpLeavesAtOnceAndKeepsNoPlace) {
  TenantQueue queue(io_.get_executor(), 1);
  Visit& first = visit(queue, "a", "first");
  Visit& second = visit(queue, "a", "second");
  visit(queue, "a", "third");
  second.gave_up = true;
  queue.wake();
  settle();
  ASSERT_EQ(order_.size(), 2U);
  EXPECT_THAT(order_.back(), HasSubstr("second: it was cancelled"));
  release(first);
  EXPECT_EQ(order_.back(), "third");
}

TEST_F(Queue, WaitingHasAnEnd) {
  TenantQueue queue(io_.get_executor(), 1);
  visit(queue, "a", "first");
  visit(queue, "b", "late", Deadline::in(1ms));
  io_.restart();
  io_.run_for(5s);
  EXPECT_THAT(order_.back(), HasSubstr("late: it waited too long"));
}

TEST(TenantCounts, EachHasItsOwnAndAnEndGivesItBack) {
  TenantCount count("builds under way", 2);
  auto first = count.take(core::TenantId("a"));
  auto second = count.take(core::TenantId("a"));
  ASSERT_TRUE(first && second);
  const auto refused = count.take(core::TenantId("a"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("builds under way"));
  EXPECT_TRUE(count.take(core::TenantId("b")));
  {
    const TenantCount::Ticket moved = *std::move(second);
  }
  EXPECT_TRUE(count.take(core::TenantId("a")));
}

}  // namespace
}  // namespace firebreak::control
