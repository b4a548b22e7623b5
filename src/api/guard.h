// What handlers throw: a bug, or no memory. The façade answers in its own protocol; the log gets a
// line, firebreak_exceptions_total one more, and the server goes on. One executor.
#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "net/task.h"
#include "obs/exceptions.h"

namespace firebreak::api {

// The error that the caller gets; what was thrown is for the log only.
Error thrown_error();

// What the task gives; an exception is reported and becomes an error of Code::internal.
template <class R>
net::Task<R> caught(net::Task<R> task, obs::Exceptions exceptions, std::string_view where) {
  try {
    co_return co_await std::move(task);
  } catch (...) {
    exceptions.report(where, "", std::current_exception());
    co_return std::unexpected(thrown_error());
  }
}

}  // namespace firebreak::api
