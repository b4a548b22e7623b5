// Writes what becomes of a microVM, then tells everybody: the log, the metrics, those who wait.
// Every change of a record goes through here. Owned by the Supervisor; one executor.
#pragma once

#include "control/live_microvms.h"
#include "net/broadcast.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "store/database.h"

namespace firebreak::control {

class Journal {
 public:
  struct Needs {
    store::Database& db;
    const core::Clock& clock;
    obs::Log& log;
    obs::Metrics& metrics;
    LiveMicrovms& live;
    net::Broadcast& changed;  // there may be a new event
  };
  explicit Journal(Needs needs) : needs_(needs) {}

  // The caller holds the turn. Not written: the record is what it was, and the ticker settles what
  // came of the transition.
  net::Task<Result<>> commit(LiveMicrovm& vm, store::MicrovmChange change,
                             store::Durability durability = store::Durability::now);
  // Tells the tenant, as an event without another state.
  net::Task<Result<>> note(core::MicrovmId id, std::string what);
  // A step failed: counted by its code.
  void count_error(const Error& error);

 private:
  Needs needs_;
};

}  // namespace firebreak::control
