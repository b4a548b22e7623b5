#include "net/broadcast.h"

namespace firebreak::net {

Task<bool> Broadcast::wait(Deadline deadline, std::uint64_t seen) {
  if (seen != count_) co_return true;
  auto at = waiters_.emplace(waiters_.end(), executor_);
  const bool woken = co_await at->wait(deadline);
  waiters_.erase(at);
  co_return woken;
}

}  // namespace firebreak::net
