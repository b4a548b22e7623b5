// How late an event loop is: a timer that records by how much it was missed. Everything that waits
// on the loop waits at least as long. Run as a task by whoever owns the loop; one executor.
#pragma once

#include <chrono>

#include "net/task.h"
#include "obs/metrics.h"

namespace firebreak::net {

inline constexpr std::chrono::milliseconds kLoopLagEvery{100};

// Until it is cancelled: firebreak_loop_lag_seconds, one observation each `every`.
inline Task<void> measure_loop_lag(obs::Metrics& metrics,
                                   std::chrono::milliseconds every = kLoopLagEvery) {
  constexpr const char* kLag = "firebreak_loop_lag_seconds";
  metrics.describe(kLag, "histogram", "How late timers of the server's event loop fire.");
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    timer.expires_after(every);
    auto [ec] = co_await timer.async_wait(kNoThrow);
    if (ec) co_return;
    const auto late = std::chrono::steady_clock::now() - timer.expiry();
    metrics.observe_ms(kLag, "", std::chrono::duration<double, std::milli>(late).count());
  }
}

}  // namespace firebreak::net
