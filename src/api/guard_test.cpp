#include "api/guard.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/fake_exchange_test_support.h"
#include "base/json.h"
#include "base/sys.h"
#include "control/task_test_support.h"

namespace firebreak::api {
namespace {

using testing::HasSubstr;
using testing::Not;

class Guard : public testing::Test {
 protected:
  // The log's lines.
  std::string run(const net::HttpHandler& handler, FakeExchange& exchange) {
    auto pipe = sys::pipe();
    obs::Log log(pipe->second.get(), obs::LogFormat::text, obs::Level::info);
    const net::HttpHandler whole = guarded(handler, log);
    const auto task = [&]() -> net::Task<bool> {
      co_await whole(exchange);
      co_return true;
    };
    EXPECT_TRUE(control::run_task(io_, task()));
    pipe->second.reset();
    std::string out(4096, '\0');
    const ssize_t n = ::read(pipe->first.get(), out.data(), out.size());
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }

  net::asio::io_context io_;
};

TEST_F(Guard, AnExceptionIsAnAnswerAndALineInTheLog) {
  FakeExchange exchange("PUT", "/v1/x?token=secret");
  const std::string log = run(
      [](net::HttpExchange&) -> net::Task<void> {
        throw std::out_of_range("a bug\nof ours");
        co_return;
      },
      exchange);
  EXPECT_EQ(exchange.status, 500);
  EXPECT_EQ(wire::find_header(exchange.headers, "content-type"), "application/json");
  const auto body = parse_json_object(exchange.answer);
  ASSERT_TRUE(body) << exchange.answer;
  EXPECT_EQ(body->at("code"), "internal");
  EXPECT_THAT(exchange.answer, Not(HasSubstr("a bug")));
  EXPECT_THAT(log, HasSubstr("exception method=PUT path=/v1/x"));
  EXPECT_THAT(log, HasSubstr("a bug\\nof ours"));
  EXPECT_THAT(log, Not(HasSubstr("secret")));
}

TEST_F(Guard, WhatIsNoExceptionOfTheLibraryCountsAsWell) {
  FakeExchange exchange("GET", "/");
  const std::string log = run(
      [](net::HttpExchange&) -> net::Task<void> {
        throw 7;
        co_return;
      },
      exchange);
  EXPECT_EQ(exchange.status, 500);
  EXPECT_THAT(log, HasSubstr("unknown exception"));
}

TEST_F(Guard, AnAnswerThatHasBegunIsNotAnsweredAgain) {
  FakeExchange exchange("GET", "/");
  const std::string log = run(
      [](net::HttpExchange& client) -> net::Task<void> {
        (void)co_await client.start(200, {}, Deadline::in(std::chrono::seconds(1)));
        throw std::runtime_error("half-way");
      },
      exchange);
  EXPECT_EQ(exchange.status, 200);
  EXPECT_EQ(exchange.answer, "");
  EXPECT_THAT(log, HasSubstr("half-way"));
}

TEST_F(Guard, CaughtGivesAnError) {
  const auto task = []() -> net::Task<Result<>> {
    throw std::runtime_error("half-way");
    co_return Result<>();
  };
  const auto done = control::run_task(io_, caught(task()));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::internal);
  EXPECT_EQ(done.error().detail, "half-way");
}

}  // namespace
}  // namespace firebreak::api
