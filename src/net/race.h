// Two tasks at once; the first that ends decides, and the other is cancelled and waited for. Unlike
// Asio's operator ||, an exception ends the race as well: there the other task would be waited for,
// perhaps for ever, and what was thrown would be lost. One executor.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

#include "net/task.h"

namespace firebreak::net {

namespace detail {

// A task's outcome as one value, so that void is like any other.
template <class T>
struct Outcome {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
  std::exception_ptr thrown;
  Value value{};
};

template <class T>
Task<Outcome<T>> outcome_of(Task<T> task) {
  Outcome<T> outcome;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
    } else {
      outcome.value = co_await std::move(task);
    }
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
  co_return outcome;
}

}  // namespace detail

// The result of the one that ended first; a void task's is std::monostate. Throws what it threw,
// and what the other threw unless that was for being cancelled.
template <class A, class B>
Task<std::variant<typename detail::Outcome<A>::Value, typename detail::Outcome<B>::Value>> race(
    Task<A> first, Task<B> second) {
  using Won = std::variant<typename detail::Outcome<A>::Value, typename detail::Outcome<B>::Value>;
  const auto executor = co_await asio::this_coro::executor;
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, detail::outcome_of(std::move(first)), asio::deferred),
      asio::co_spawn(executor, detail::outcome_of(std::move(second)), asio::deferred));
  // Outcomes hold what tasks throw; the exceptions beside them are of tasks that never began.
  auto [order, lost_a, a, lost_b, b] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::deferred);
  if (lost_a && !a.thrown) a.thrown = lost_a;
  if (lost_b && !b.thrown) b.thrown = lost_b;
  const bool first_won = order[0] == 0;
  const std::exception_ptr& winner = first_won ? a.thrown : b.thrown;
  const std::exception_ptr& loser = first_won ? b.thrown : a.thrown;
  if (winner) std::rethrow_exception(winner);
  if (loser && !was_cancelled(loser)) std::rethrow_exception(loser);
  if (first_won) co_return Won(std::in_place_index<0>, std::move(a.value));
  co_return Won(std::in_place_index<1>, std::move(b.value));
}

}  // namespace firebreak::net
