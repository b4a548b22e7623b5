// Runs a task on a loop of its own, to its end. Blocking.
#pragma once

#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "net/task.h"

namespace firebreak::testing_support {

inline Result<> run_task(net::Task<Result<>> task) {
  net::asio::io_context io(1);
  Result<> outcome = fail(Code::internal, "not run");
  net::asio::co_spawn(io, std::move(task), [&](const std::exception_ptr&, Result<> result) {
    outcome = std::move(result);
  });
  io.run();
  return outcome;
}

}  // namespace firebreak::testing_support
