#include "control/start_slots.h"

#include <optional>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;

class StartSlotsTest : public testing::Test {
 protected:
  // Asks for a slot and keeps it.
  void ask(StartSlots& slots, const std::string& tenant) {
    auto body = [](StartSlotsTest& self, StartSlots& slots, std::string tenant) -> net::Task<void> {
      auto slot = co_await slots.lock(core::TenantId(tenant), Deadline::in(20s));
      EXPECT_TRUE(slot) << slot.error().text();
      if (!slot) co_return;
      self.got_.push_back(tenant);
      self.slots_.emplace_back(std::in_place, *std::move(slot));
    };
    start_task(io_, body(*this, slots, tenant));
    io_.restart();
    io_.poll();
  }
  void release(std::size_t at) {
    slots_[at].reset();
    io_.restart();
    io_.poll();
  }

  net::asio::io_context io_;
  std::vector<std::string> got_;
  std::vector<std::optional<StartSlots::Slot>> slots_;
};

TEST_F(StartSlotsTest, NobodyStandsBehindAllThatAnotherAskedFor) {
  StartSlots slots(io_.get_executor(), 2, 1h);
  for (int i = 0; i < 5; ++i) ask(slots, "many");
  ask(slots, "one");
  EXPECT_THAT(got_, testing::ElementsAre("many", "many"));
  release(0);
  release(1);
  EXPECT_THAT(got_, testing::ElementsAre("many", "many", "one", "many"));
  for (std::size_t i = 2; i < slots_.size(); ++i) release(i);
  EXPECT_EQ(got_.size(), 6U);
}

TEST_F(StartSlotsTest, OneThatIsHeldForLongIsGivenBackByItself) {
  StartSlots slots(io_.get_executor(), 1, 50ms);
  ask(slots, "silent");
  ask(slots, "other");
  EXPECT_THAT(got_, testing::ElementsAre("silent"));
  const Deadline deadline = Deadline::in(10s);
  while (got_.size() < 2 && !deadline.passed()) io_.run_one_for(1s);
  EXPECT_THAT(got_, testing::ElementsAre("silent", "other"));
  release(0);
  release(1);
}

}  // namespace
}  // namespace firebreak::control
