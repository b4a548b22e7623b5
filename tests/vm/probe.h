// A Python process in the guest that keeps state, runs code it is asked to run, and may watch
// clock, random numbers and identity without a pause. Value: where the conversation stands; copy it
// per clone.
#pragma once

#include "base/json.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {

inline constexpr const char* kProbeCounter = "/dev/shm/count";

class Probe {
 public:
  static Task<Result<Probe>> start(Machine& machine, bool sampling);
  // Runs the code in the probe's globals and returns what it assigned to `result`.
  Task<Result<json::value>> ask(Machine& machine, std::string code);

 private:
  std::uint64_t asked_ = 0;  // bytes of its input
  std::uint64_t heard_ = 0;  // bytes of its output
};

// Starts a sampling one, and waits until it has samples of the identity before the freeze.
Task<Result<Probe>> start_sampler(Machine& machine);

struct ProbedSnapshot {
  std::shared_ptr<Snapshot> snapshot;
  Probe probe;
};
// A snapshot with a running probe in it, made once.
Task<Result<ProbedSnapshot>> probed_snapshot(bool sampling);

// How many samples the probe has taken, read past it: works while it is frozen.
Task<Result<std::uint64_t>> samples_taken(Machine& machine);

struct Sample {
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
  std::string random;  // 16 bytes
  std::string hostname;
  std::string machine_id;
};

// The clock was set between two samples: the last one before, and the first one after.
struct Crossing {
  std::uint64_t index = 0;  // of the first one after
  Sample before;
  Sample after;
};

struct SamplerReport {
  std::uint64_t total = 0;
  std::vector<Crossing> crossings;
  // Where a sample's hostname or machine id was not that of the sample before.
  std::vector<std::uint64_t> identity_changes;
};
Task<Result<SamplerReport>> sampler_report(Machine& machine, Probe& probe);

// Bounds of (guest's REALTIME - host's), from the tightest of many round trips. The guest's clock
// is not slewed, so this is also its error at every moment since it was last set.
struct ClockError {
  std::int64_t least_ns = 0;
  std::int64_t most_ns = 0;
  bool within(std::chrono::milliseconds bound) const {
    const std::int64_t ns = std::chrono::nanoseconds(bound).count();
    return least_ns > -ns && most_ns < ns;
  }
  std::string text() const;
};
Task<Result<ClockError>> clock_error(Machine& machine, Probe& probe);

// The last time its clock was set, this sampler went from the old identity to `identity` in one
// step.
void expect_clean_crossing(const SamplerReport& report, std::size_t crossings,
                           const machine::Identity& identity);
// The agent answers for a while, and the tenant has not moved.
Task<void> expect_frozen(Machine& machine);
Task<void> expect_right_clock(Machine& machine, Probe& probe);

}  // namespace firebreak::testing_support
