// Everything that a server does not make itself: passed in, so that a test runs a whole server in
// its own process on a fake host and moves its time. Secrets are the exception: keys and tokens
// always come from the kernel. Owned by whoever runs the server, and outlives it.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "control/pauses.h"
#include "control/steps.h"
#include "core/clock.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "server/hosting.h"
#include "store/store.h"

namespace firebreak::server {

struct Surroundings {
  net::asio::io_context& io;
  net::asio::thread_pool& pool;  // for what blocks
  const core::Clock& clock;
  control::Pauses& pauses;  // that pass as the clock does
  obs::Log& log;
  obs::Metrics& metrics;
  control::Steps steps;
  // Called once, when the data directory is there.
  std::function<Result<std::unique_ptr<store::Store>>()> open_store;
  std::function<Result<std::unique_ptr<Hosting>>()> open_hosting;
};

}  // namespace firebreak::server
