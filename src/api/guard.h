// What handlers throw: a bug, or no memory. The caller gets a 500 with a body, the log gets a line,
// and the server goes on. Pure functions around handlers; one executor.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/result.h"
#include "net/http.h"
#include "obs/log.h"

namespace firebreak::api {

// The error that stands for the exception under way; its text is for the log only.
Error caught_error();

// What the task gives; an exception becomes an error of Code::internal. For façades that write
// errors in a protocol of their own.
template <class R>
net::Task<R> caught(net::Task<R> task) {
  try {
    co_return co_await std::move(task);
  } catch (...) {
    co_return std::unexpected(caught_error());
  }
}

// The handler of a listener, with an answer for whatever it throws.
net::HttpHandler guarded(net::HttpHandler handler, obs::Log& log);

}  // namespace firebreak::api
