#include "session/presence.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace firebreak::session {

net::Task<Result<>> while_present(Presence& caller, net::Task<Result<>> task) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto either = co_await (std::move(task) || caller.gone());
  if (either.index() == 0) co_return std::get<0>(either);
  co_return fail(Code::unavailable, "the client went away");
}

}  // namespace firebreak::session
