// What control stands on. Whoever wires the program fills it in and hands it to Supervisor, Images
// and Builds, which take out of it what each of their parts needs: no part keeps the whole. Owned
// by the program; one executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "control/app_log.h"
#include "control/gate.h"
#include "control/outlet.h"
#include "control/pauses.h"
#include "control/steps.h"
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
  Pauses& pauses;  // that pass as the clock does
  obs::Log& log;
  obs::Metrics& metrics;
  Gate& gate;      // asked before every act that costs or reaches
  Outlet& outlet;  // passed by every byte that comes from a guest
  Traffic traffic;
  net::asio::any_io_executor executor;
  // For what blocks: files, and the engine's `list`, `is_suspended` and `stored_bytes`, which may
  // be called from any thread.
  net::asio::thread_pool& pool;
  ControlOptions options;
  Steps steps;
  AppLog app_log;
  std::string data_dir;                  // of the server
  egress::Networks* networks = nullptr;  // none: this host has none for microVMs
  KeyRing* keys = nullptr;               // none: guests get no credentials
  // There may be a new event, or room on the host: for who follows all events, and for builds that
  // wait for room. Who waits for one microVM waits for LiveMicrovm::changed.
  net::Broadcast changed;

  obs::Exceptions exceptions() const { return {log, metrics}; }
};

}  // namespace firebreak::control
