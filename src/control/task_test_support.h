// Runs tasks to their end for tests. One thread.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "net/task.h"

namespace firebreak::control {

// Starts a task that nobody waits for; the loop throws what it throws.
inline void start_task(net::asio::io_context& io, net::Task<void> task) {
  net::asio::co_spawn(io, std::move(task), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

// What a task returns; a test that waits for more than 20 seconds ends badly.
template <class T>
T run_task(net::asio::io_context& io, net::Task<T> task) {
  std::optional<T> result;
  net::asio::co_spawn(io, std::move(task), [&](const std::exception_ptr& thrown, T value) {
    if (thrown) std::rethrow_exception(thrown);
    result = std::move(value);
  });
  io.restart();
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (!result && !deadline.passed()) io.run_one_for(std::chrono::seconds(1));
  return *std::move(result);
}

}  // namespace firebreak::control
