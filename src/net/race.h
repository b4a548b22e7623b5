// Two tasks at once; the first that ends decides, and the other is cancelled and waited for. Unlike
// Asio's operator ||, an exception ends the race as well: there the other task would be waited for,
// perhaps for ever, and what was thrown would be lost. One executor.
#pragma once

#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

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
Task<void> run_into(Outcome<T>& outcome, Task<T> task) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
    } else {
      outcome.value = co_await std::move(task);
    }
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
}

struct Finish {
  bool first_won = false;
  // Of tasks that never began: those that ran keep their own.
  std::exception_ptr first_lost;
  std::exception_ptr second_lost;
};
Task<Finish> run_both(Task<void> first, Task<void> second);

}  // namespace detail

// The result of the one that ended first; a void task's is std::monostate. Throws what it threw,
// and what the other threw unless that was for being cancelled.
template <class A, class B>
Task<std::variant<typename detail::Outcome<A>::Value, typename detail::Outcome<B>::Value>> race(
    Task<A> first, Task<B> second) {
  using Won = std::variant<typename detail::Outcome<A>::Value, typename detail::Outcome<B>::Value>;
  detail::Outcome<A> a;
  detail::Outcome<B> b;
  const detail::Finish finish = co_await detail::run_both(detail::run_into(a, std::move(first)),
                                                          detail::run_into(b, std::move(second)));
  if (finish.first_lost && !a.thrown) a.thrown = finish.first_lost;
  if (finish.second_lost && !b.thrown) b.thrown = finish.second_lost;
  const std::exception_ptr& winner = finish.first_won ? a.thrown : b.thrown;
  const std::exception_ptr& loser = finish.first_won ? b.thrown : a.thrown;
  if (winner) std::rethrow_exception(winner);
  if (loser && !was_cancelled(loser)) std::rethrow_exception(loser);
  if (finish.first_won) co_return Won(std::in_place_index<0>, std::move(a.value));
  co_return Won(std::in_place_index<1>, std::move(b.value));
}

}  // namespace firebreak::net
