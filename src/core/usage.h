// What a microVM used, for bills and limits. Intervals are accounted from `metered_until` to now
// and stored together with it, so a crash repeats nothing and loses only the last interval's
// CPU detail. Pure; the owner serialises calls.
#pragma once

#include <cstdint>

#include "core/clock.h"
#include "core/lifecycle.h"
#include "core/size.h"

namespace firebreak::core {

struct Usage {
  std::uint64_t running_ms = 0;
  std::uint64_t cpu_usec = 0;                // all of it
  std::uint64_t cpu_over_usec = 0;           // above the baseline share
  std::uint64_t memory_mib_ms = 0;           // resident, at least the baseline, while running
  std::uint64_t suspended_mib_ms = 0;        // saved state on disk
  std::uint64_t snapshot_read_bytes = 0;     // launches and resumes
  std::uint64_t snapshot_written_bytes = 0;  // suspends
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;

  Usage& operator+=(const Usage& other);
  friend bool operator==(const Usage&, const Usage&) = default;
};

// The meter of one microVM: totals and where counting stands.
struct Meter {
  Usage total;
  Time until{};                   // accounted up to here; unset: the first sample sets it
  std::uint64_t cpu_counter = 0;  // the process's own counter when last read; 0 for a new process
  friend bool operator==(const Meter&, const Meter&) = default;
};

struct Sample {
  Time now{};
  MicrovmState state = MicrovmState::running;
  std::uint64_t cpu_counter_usec = 0;  // of the process since it began
  std::uint64_t memory_bytes = 0;      // resident
  std::uint64_t saved_bytes = 0;       // on disk while suspended
  std::uint64_t bytes_in = 0;          // since the last sample
  std::uint64_t bytes_out = 0;
};

// Accounts the time since the last sample to the state the microVM was in during it.
void advance(Meter& meter, const SizeClass& size, const Sample& sample);

}  // namespace firebreak::core
