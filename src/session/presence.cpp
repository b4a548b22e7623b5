#include "session/presence.h"

#include "net/race.h"

namespace firebreak::session {

net::Task<Result<>> while_present(Presence& caller, net::Task<Result<>> task) {
  auto either = co_await net::race(std::move(task), caller.gone());
  if (either.index() == 0) co_return std::get<0>(either);
  co_return fail(Code::unavailable, "the client went away");
}

}  // namespace firebreak::session
