// Coroutine vocabulary: Task, waiting with a deadline, moving blocking work off the event loop.
// A Task runs on the executor it was spawned on; objects shared by tasks live on one executor
// (strand).
#pragma once

#include <exception>

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
inline bool was_cancelled(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

// A condition that tasks of one executor wait for and others signal. wait() returns false when the
// deadline passed first. Spurious wake-ups are possible: wait in a loop over the real condition.
class Event {
 public:
  explicit Event(const asio::any_io_executor& executor) : timer_(executor) {}
  void notify() { timer_.cancel(); }
  Task<bool> wait(Deadline deadline) {
    if (deadline.passed()) co_return false;
    timer_.expires_at(deadline.at());
    auto [ec] = co_await timer_.async_wait(kNoThrow);
    co_return ec == asio::error::operation_aborted;
  }

 private:
  asio::steady_timer timer_;
};

// Runs `work` (blocking) on the pool and comes back to the calling executor with what it returned.
template <class Work>
Task<std::invoke_result_t<Work>> run_blocking(asio::thread_pool& pool, Work work) {
  using R = std::invoke_result_t<Work>;
  auto initiate = [&pool, &work](auto handler) {
    asio::post(pool, [handler = std::move(handler), &work]() mutable {
      auto result = work();
      auto executor = asio::get_associated_executor(handler);
      asio::post(executor, [handler = std::move(handler), result = std::move(result)]() mutable {
        std::move(handler)(std::move(result));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(R)>(
      initiate, asio::use_awaitable);
}

}  // namespace firebreak::net
