// What Supervisor, Images, Builds and their parts share. Owned by the program; one executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "control/app_log.h"
#include "control/gate.h"
#include "control/outlet.h"
#include "core/admission.h"
#include "core/clock.h"
#include "core/demand.h"
#include "image/catalogue.h"
#include "machine/engines.h"
#include "net/broadcast.h"
#include "obs/exceptions.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "store/database.h"

namespace firebreak::egress {
class Networks;
}

namespace firebreak::control {

class KeyRing;

struct ControlOptions {
  core::HostBudget budget;
  core::PoolBounds pool;
  bool suspend_under_pressure = true;
  std::uint32_t parallel_restores = 2;   // more would only share the same CPUs
  std::chrono::milliseconds tick{1000};  // timed actions are looked at so often
  std::chrono::milliseconds meter_every{10'000};
  std::uint32_t busy_cpu_percent = 5;          // of one CPU: above it a guest counts as working
  core::Seconds keep_terminated{24 * 3600};    // records stay readable so long
  core::Seconds keep_history{90 * 24 * 3600};  // usage of each that ended, events
  core::Seconds credential_life{55 * 60};  // of a guest's credentials; replaced after half of it
};

// Bytes to and from guests, for users.
struct Traffic {
  explicit Traffic(obs::Metrics& metrics)
      : in(metrics.counter("firebreak_bytes_total", obs::label("direction", "in"))),
        out(metrics.counter("firebreak_bytes_total", obs::label("direction", "out"))) {
    metrics.describe("firebreak_bytes_total", "counter", "Bytes to and from guests for users.");
  }
  obs::Counter in;
  obs::Counter out;
};

struct Services {
  const machine::Engines& engines;
  store::Database& db;
  image::Catalogue& catalogue;
  const core::Clock& clock;
  obs::Log& log;
  obs::Metrics& metrics;
  Gate& gate;      // asked before every act that costs or reaches
  Outlet& outlet;  // passed by every byte that comes from a guest
  Traffic traffic;
  net::asio::any_io_executor executor;
  net::asio::thread_pool& pool;  // for what blocks
  ControlOptions options;
  // Named steps; a test that runs a whole server ends it at one of them.
  std::function<void(std::string_view point)> fault;
  AppLog app_log;
  std::string data_dir;                  // of the server
  egress::Networks* networks = nullptr;  // none: this host has none for microVMs
  KeyRing* keys = nullptr;               // none: guests get no credentials
  // There may be a new event, or room on the host: for who follows all events, and for builds that
  // wait for room. Who waits for one microVM waits for LiveMicrovm::changed.
  net::Broadcast changed;
  core::HostUse builds;  // of the machines that build images
  int foreground = 0;    // launches and resumes under way: the pool waits for them

  // What reads or writes files goes there, the engine's `list`, `is_suspended` and `stored_bytes`
  // included, which may be called from any thread.
  template <class Work>
  auto blocking(Work work) const {
    return net::run_blocking(pool, std::move(work));
  }
  obs::Exceptions exceptions() const { return {log, metrics}; }
  void reach(std::string_view point) const {
    if (fault) fault(point);
  }
};

// Counts as foreground work while it lives.
class Foreground {
 public:
  explicit Foreground(Services& services) : services_(services) { ++services_.foreground; }
  ~Foreground() { --services_.foreground; }
  Foreground(const Foreground&) = delete;
  Foreground& operator=(const Foreground&) = delete;

 private:
  Services& services_;
};

}  // namespace firebreak::control
