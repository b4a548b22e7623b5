#include "net/race.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

namespace firebreak::net::detail {

Task<Finish> run_both(Task<void> first, Task<void> second) {
  const auto executor = co_await asio::this_coro::executor;
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(first), asio::deferred),
      asio::co_spawn(executor, std::move(second), asio::deferred));
  auto [order, first_lost, second_lost] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::deferred);
  co_return Finish{order[0] == 0, first_lost, second_lost};
}

}  // namespace firebreak::net::detail
