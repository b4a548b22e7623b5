#include "net/race.h"

#include <optional>
#include <stdexcept>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;

class RaceTest : public testing::Test {
 protected:
  Task<void> never() {
    Event event(io_.get_executor());
    for (;;) (void)co_await event.wait(Deadline::in(60s));
  }
  Task<void> throws() {
    co_await asio::post(io_, asio::use_awaitable);
    throw std::runtime_error("a bug");
  }
  Task<Result<std::string>> gives(std::string text) {
    co_await asio::post(io_, asio::use_awaitable);
    co_return text;
  }

  // What the task threw; empty: nothing. Fails when it does not end by itself.
  template <class T>
  std::string thrown_by(Task<T> task) {
    std::optional<std::string> thrown;
    auto body = [&](Task<T> inner) -> Task<void> {
      try {
        (void)co_await std::move(inner);
        thrown = "";
      } catch (const std::exception& error) {
        thrown = error.what();
      }
    };
    asio::co_spawn(io_, body(std::move(task)), [](const std::exception_ptr&) {});
    io_.restart();
    while (io_.poll_one() > 0) {
    }
    EXPECT_TRUE(thrown) << "it waits for the other task";
    return thrown.value_or("hangs");
  }

  asio::io_context io_;
};

TEST_F(RaceTest, TheFirstDecides) {
  std::size_t winner = 9;
  std::string text;
  auto body = [&]() -> Task<void> {
    auto either = co_await race(never(), gives("x"));
    winner = either.index();
    text = *std::get<1>(either);
  };
  EXPECT_EQ(thrown_by(body()), "");
  EXPECT_EQ(winner, 1U);
  EXPECT_EQ(text, "x");
}

TEST_F(RaceTest, AnExceptionEndsItAtOnce) {
  EXPECT_EQ(thrown_by(race(throws(), never())), "a bug");
  EXPECT_EQ(thrown_by(race(never(), throws())), "a bug");
  auto at_once = []() -> Task<void> {
    throw std::runtime_error("at once");
    co_return;
  };
  EXPECT_EQ(thrown_by(race(never(), at_once())), "at once");
}

}  // namespace
}  // namespace firebreak::net
