// What the servers inside a namespace have in common: sockets that were opened there by others, and
// a guest that must not keep the event loop busy. One executor.
#pragma once

#include <algorithm>
#include <chrono>

#include <sys/socket.h>

#include "base/fd.h"
#include "base/result.h"
#include "core/limits.h"
#include "net/task.h"

namespace firebreak::egress {

// Makes an Asio socket or acceptor of a descriptor.
template <class Protocol, class Socket>
Result<> take_over(Socket& socket, UniqueFd fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail_errno("a socket of a microVM's network");
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6)
    return fail(Code::internal, "a socket of a microVM's network is of another family");
  boost::system::error_code ec;
  socket.assign(address.ss_family == AF_INET ? Protocol::v4() : Protocol::v6(), fd.get(), ec);
  if (!ec) (void)fd.release();
  if (!ec) socket.non_blocking(true, ec);
  if (ec) return fail(Code::internal, "cannot serve a microVM's network", ec.message());
  return {};
}

// After a failed accept or receive the next one would fail as well.
inline net::Task<void> pause_after_failure() {
  net::Event timer(co_await net::asio::this_coro::executor);
  (void)co_await timer.wait(Deadline::in(std::chrono::milliseconds(100)));
}

// A flood is not read faster than the rate, so it costs the host no more than that.
inline net::Task<void> take_turn(core::TokenBucket& rate) {
  for (;;) {
    const auto since = Deadline::Clock::now().time_since_epoch();
    const core::Time now(std::chrono::floor<core::Millis>(since));
    const auto at = rate.take(now);
    if (!at) co_return;
    net::Event timer(co_await net::asio::this_coro::executor);
    (void)co_await timer.wait(Deadline::in(std::max(*at - now, core::Millis(1))));
  }
}

}  // namespace firebreak::egress
