#include "net/semaphore.h"

#include <boost/asio/cancellation_state.hpp>

namespace firebreak::net {

Task<Result<Semaphore::Guard>> Semaphore::lock(Deadline deadline) {
  if (free_ > 0) {
    --free_;
    co_return Guard(this);
  }
  auto at = waiters_.emplace(waiters_.end(), executor_);
  // A cancelled task would leave the loop by an exception, and its place in the queue would be
  // served in its stead.
  const asio::cancellation_state cancel = co_await asio::this_coro::cancellation_state;
  while (!at->granted && !deadline.passed() && cancel.cancelled() == asio::cancellation_type::none)
    (void)co_await at->event.wait(deadline);
  const bool granted = at->granted;
  waiters_.erase(at);
  if (!granted) co_return fail(Code::timeout, "waiting for another operation took too long");
  co_return Guard(this);
}

}  // namespace firebreak::net
