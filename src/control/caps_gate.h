// The gate of a server: what a tenant may do in an hour or a day of UTC, and behind it what an
// inner gate says. Counters are the store's, so they hold across restarts and for all doors. An act
// that no cap counts costs nothing here. Owned by the server; one executor.
#pragma once

#include "control/limits_gate.h"
#include "store/database.h"

namespace firebreak::control {

class CapsGate final : public Gate {
 public:
  CapsGate(Gate& inner, LimitsGate::Limits limits, store::Database& db, const core::Clock& clock)
      : inner_(inner), limits_(std::move(limits)), db_(db), clock_(clock) {}

  net::Task<Result<>> ask(Ask ask) override;

 private:
  Gate& inner_;
  LimitsGate::Limits limits_;
  store::Database& db_;
  const core::Clock& clock_;
};

// The refusal of a cap as everybody answers it: reason "cap_exceeded", data "dimension", and when
// it is over.
Error cap_error(const core::CapRefusal& refusal);

}  // namespace firebreak::control
