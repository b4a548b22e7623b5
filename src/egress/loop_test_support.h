// An event loop for tests: runs a coroutine to its end, or fails. One thread.
#pragma once

#include <functional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "net/task.h"

namespace firebreak::egress {

class LoopTest : public testing::Test {
 protected:
  void run(const std::function<net::Task<void>()>& body) {
    bool ended = false;
    net::asio::co_spawn(io_, body, [&](const std::exception_ptr& thrown) {
      ended = true;
      if (thrown) std::rethrow_exception(thrown);
    });
    const Deadline limit = Deadline::in(std::chrono::seconds(20));
    while (!ended && !limit.passed()) io_.run_one_for(std::chrono::milliseconds(100));
    ASSERT_TRUE(ended) << "hung";
  }

  net::asio::io_context io_;
};

}  // namespace firebreak::egress
