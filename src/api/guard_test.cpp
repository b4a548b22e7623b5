#include "api/guard.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sys.h"
#include "control/task_test_support.h"

namespace firebreak::api {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Guard, AnExceptionIsAnErrorALineInTheLogAndCounted) {
  net::asio::io_context io;
  obs::Metrics metrics;
  auto pipe = sys::pipe();
  obs::Log log(pipe->second.get(), obs::LogFormat::text, obs::Level::info);
  const auto task = []() -> net::Task<Result<>> {
    throw std::runtime_error("a bug\nof ours");
    co_return Result<>();
  };
  const auto done = control::run_task(io, caught(task(), obs::Exceptions(log, metrics), "native"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::internal);
  EXPECT_THAT(done.error().text(), Not(HasSubstr("a bug")));
  EXPECT_EQ(metrics.value("firebreak_exceptions_total", obs::label("where", "native")), 1);
  std::string line(4096, '\0');
  line.resize(static_cast<std::size_t>(::read(pipe->first.get(), line.data(), line.size())));
  EXPECT_THAT(line, HasSubstr("a bug\\nof ours"));
}

}  // namespace
}  // namespace firebreak::api
