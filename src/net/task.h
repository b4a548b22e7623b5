// Coroutine vocabulary: Task, waiting with a deadline, moving blocking work off the event loop.
// A Task runs on the executor it was spawned on; objects shared by tasks live on one executor
// (strand). What starts operations of Asio is compiled once, in task.cpp: each file that does it
// pays a second of the compiler's time.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "base/deadline.h"
#include "base/result.h"

namespace firebreak::net {

namespace asio = boost::asio;

template <class T>
using Task = asio::awaitable<T>;

// For co_await only: what it gives is awaited as it is, without a coroutine of its own.
inline constexpr auto kNoThrow = asio::as_tuple(asio::deferred);

// What a wait throws in a task that was told to end.
bool was_cancelled(const std::exception_ptr& thrown);

// A condition that tasks of one executor wait for and others signal. wait() returns false when the
// deadline passed first. Spurious wake-ups are possible: wait in a loop over the real condition.
class Event {
 public:
  explicit Event(const asio::any_io_executor& executor) : timer_(executor) {}
  void notify() { timer_.cancel(); }
  Task<bool> wait(Deadline deadline);

 private:
  asio::steady_timer timer_;
};

namespace detail {
// The work and what it refers to live until it has run.
Task<void> run_on(asio::thread_pool& pool, std::function<void()> work);
}  // namespace detail

// Runs `work` (blocking) on the pool and comes back to the calling executor with what it returned.
template <class Work>
Task<std::invoke_result_t<Work>> run_blocking(asio::thread_pool& pool, Work work) {
  std::optional<std::invoke_result_t<Work>> result;
  co_await detail::run_on(pool, [&result, &work] { result.emplace(work()); });
  co_return *std::move(result);
}

}  // namespace firebreak::net
