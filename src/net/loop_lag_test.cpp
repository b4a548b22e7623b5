#include "net/loop_lag.h"

#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "net/task_group.h"

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;

TEST(LoopLag, SeesHandlersThatKeepTheLoop) {
  asio::io_context io;
  obs::Metrics metrics;
  TaskGroup tasks(io.get_executor());
  tasks.spawn("loop_lag", measure_loop_lag(metrics, 1ms));
  while (io.poll_one() > 0) {
  }
  std::this_thread::sleep_for(60ms);  // as a handler would that reads a file
  const std::string name = "firebreak_loop_lag_seconds";
  while (metrics.value(name, "") == 0) io.run_one_for(1s);
  const std::string text = metrics.text();
  EXPECT_NE(text.find(name + "_bucket{le=\"0.05\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE " + name + " histogram"), std::string::npos) << text;
}

}  // namespace
}  // namespace firebreak::net
