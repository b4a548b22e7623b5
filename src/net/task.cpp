#include "net/task.h"

namespace firebreak::net {

bool was_cancelled(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

Task<bool> Event::wait(Deadline deadline) {
  if (deadline.passed()) co_return false;
  timer_.expires_at(deadline.at());
  auto [ec] = co_await timer_.async_wait(kNoThrow);
  co_return ec == asio::error::operation_aborted;
}

namespace detail {

Task<void> run_on(asio::thread_pool& pool, std::function<void()> work) {
  auto initiate = [&pool, &work](auto handler) {
    asio::post(pool, [handler = std::move(handler), &work]() mutable {
      work();
      auto executor = asio::get_associated_executor(handler);
      asio::post(executor, [handler = std::move(handler)]() mutable { std::move(handler)(); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(initiate,
                                                                        asio::use_awaitable);
}

}  // namespace detail

}  // namespace firebreak::net
