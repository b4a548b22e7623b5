// Waiting for time to pass: between turns of the ticker, before a retry. Passed in beside the
// clock, so that a test which moves its clock moves these as well. One executor.
#pragma once

#include "core/clock.h"
#include "net/task.h"

namespace firebreak::control {

class Pauses {
 public:
  virtual ~Pauses() = default;
  // Until the span has passed, or `early` is notified.
  virtual net::Task<void> pause(core::Millis span, net::Event& early) = 0;
  // The same when nobody can end it early.
  net::Task<void> pause(core::Millis span) {
    net::Event never(co_await net::asio::this_coro::executor);
    co_await pause(span, never);
  }
};

// Real time.
class RealPauses final : public Pauses {
 public:
  using Pauses::pause;
  net::Task<void> pause(core::Millis span, net::Event& early) override {
    (void)co_await early.wait(Deadline::in(span));
  }
};

}  // namespace firebreak::control
