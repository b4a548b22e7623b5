// Times of the engine's operations on one snapshot. One thread (the world's loop).
#pragma once

#include <memory>
#include <string>

#include "bench/report.h"
#include "support/world.h"

namespace firebreak::bench {

using testing_support::Machine;
using testing_support::Snapshot;
using testing_support::Task;

// The snapshot the benchmarks clone: our reaper as PID 1, a warm python interpreter that runs lines
// from its input (exec "context"), an echo server on port 7.
Task<Result<std::shared_ptr<Snapshot>>> bench_snapshot(std::uint32_t memory_mib);

Task<Result<double>> timed_true(Machine& machine);
// One line in the warm interpreter; checks the answer.
Task<Result<double>> timed_context(Machine& machine, int round);
// Restored, rehearsed (with an exec of the image's own kind, if given), stopped.
Task<Result<std::unique_ptr<Machine>>> parked(
    std::shared_ptr<Snapshot> snapshot, std::optional<machine::ExecSpec> rehearsed = std::nullopt);

struct Counts {
  int launches = 20;
  int boots = 3;
  int execs = 30;
};
// restore, parked_launch, suspend, resume, fork_pause with `suffix` appended to the names.
Task<Result<>> bench_lifecycle(Report& report, std::shared_ptr<Snapshot> snapshot,
                               const std::string& suffix, int count);
// Suspend and resume with so many MB changed.
Task<Result<>> bench_dirty(Report& report, std::shared_ptr<Snapshot> snapshot, int megabytes,
                           int count);
Task<Result<>> bench_exec(Report& report, std::shared_ptr<Snapshot> snapshot, int count);
Task<Result<>> bench_channel(Report& report, std::shared_ptr<Snapshot> snapshot);
Task<Result<>> bench_cold_boot(Report& report, int count);
// Private memory of 1, 10 and 50 clones; burst_50 on the way.
Task<Result<>> bench_memory(Report& report, std::shared_ptr<Snapshot> snapshot);

}  // namespace firebreak::bench
