// How much memory clones cost, and how many can be started at once.
#include <boost/asio/co_spawn.hpp>

#include "base/sys.h"
#include "base/text.h"
#include "bench/engine_bench.h"

namespace firebreak::bench {
namespace {

using machine::ExecSpec;
using machine::fresh_identity;
using testing_support::in_seconds;
using testing_support::world;

// Pages no other process shares: anonymous ones, which include the guest pages copied on write, and
// the page tables. (Private_Dirty would count pages of the shared RAM image that only one clone
// happens to map.)
double private_mb(pid_t pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  double kib = 0;
  const auto add = [&kib](const std::string& file, std::string_view field) {
    auto text = sys::read_file(file);
    if (!text) return;
    const auto at = text->find(std::string("\n") + std::string(field));
    if (at != std::string::npos) kib += std::strtod(text->c_str() + at + 1 + field.size(), nullptr);
  };
  add(proc + "/smaps_rollup", "Anonymous:");
  add(proc + "/status", "VmPTE:");
  return kib / 1024;
}

double mean_private_mb(const std::vector<std::unique_ptr<Machine>>& machines) {
  double sum = 0;
  for (const auto& machine : machines) sum += private_mb(machine->pid());
  return sum / static_cast<double>(machines.size());
}

Task<Result<>> start_one(std::shared_ptr<Snapshot> snapshot,
                         std::vector<std::unique_ptr<Machine>>& machines, Samples& samples) {
  const Timer timer;
  FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(std::move(snapshot)));
  FB_CO_TRY(co_await timed_true(*machine));
  samples.add(timer.ms());
  machines.push_back(std::move(machine));
  co_return Result<>();
}

// All at once; returns when each has succeeded or failed.
Task<int> start_many(std::shared_ptr<Snapshot> snapshot, int count,
                     std::vector<std::unique_ptr<Machine>>& machines, Samples& samples) {
  int running = count;
  int failed = 0;
  net::Event done(world().io().get_executor());
  for (int i = 0; i < count; ++i) {
    net::asio::co_spawn(world().io(), start_one(snapshot, machines, samples),
                        [&](std::exception_ptr error, const Result<>& result) {
                          if (error || !result) ++failed;
                          --running;
                          done.notify();
                        });
  }
  while (running > 0) (void)co_await done.wait(in_seconds(600));
  co_return failed;
}

Task<Result<>> end_all(std::vector<std::unique_ptr<Machine>>& machines) {
  for (auto& machine : machines) FB_CO_TRY(co_await machine->terminate(in_seconds(30)));
  machines.clear();
  co_return Result<>();
}

// Awake, and nobody has run anything in them.
Task<Result<double>> idle_mb(std::shared_ptr<Snapshot> snapshot, int count) {
  std::vector<std::unique_ptr<Machine>> machines;
  for (int i = 0; i < count; ++i) {
    FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
    machines.push_back(std::move(machine));
  }
  const double mean = mean_private_mb(machines);
  FB_CO_TRY(co_await end_all(machines));
  co_return mean;
}

}  // namespace

Task<Result<>> bench_memory(Report& report, std::shared_ptr<Snapshot> snapshot) {
  for (const int count : {1, 10, 50}) {
    FB_CO_TRY_ASSIGN(const double idle, co_await idle_mb(snapshot, count));
    report.value("private_mb_idle_" + std::to_string(count), idle, "MB per clone");
    std::vector<std::unique_ptr<Machine>> machines;
    Samples samples;
    const Timer wall;
    const int failed = co_await start_many(snapshot, count, machines, samples);
    const std::string suffix = "_" + std::to_string(count);
    report.time("burst" + suffix, samples);
    report.value("burst" + suffix + "_wall", wall.ms(), "ms");
    report.value("burst" + suffix + "_failed", failed, "of " + std::to_string(count));
    if (failed != 0) co_return fail(Code::internal, "a clone of the burst failed");
    report.value("private_mb_after_exec" + suffix, mean_private_mb(machines), "MB per clone");
    ExecSpec work;
    work.argv = {"/usr/bin/python3", "-c",
                 "import json,hashlib; x=[json.dumps({'i':i}) for i in range(20000)]; "
                 "print(len(hashlib.sha256(''.join(x).encode()).hexdigest()))"};
    for (auto& machine : machines) FB_CO_TRY(co_await machine->agent().run(work, in_seconds(120)));
    report.value("private_mb_after_python" + suffix, mean_private_mb(machines), "MB per clone");
    FB_CO_TRY(co_await end_all(machines));
  }
  std::vector<std::unique_ptr<Machine>> machines;
  for (int i = 0; i < 5; ++i) {
    FB_CO_TRY_ASSIGN(auto machine, co_await parked(snapshot));
    machines.push_back(std::move(machine));
  }
  report.value("private_mb_parked", mean_private_mb(machines), "MB per clone");
  FB_CO_TRY(co_await end_all(machines));
  report.value("base_ram_mb", static_cast<double>(snapshot->ram_bytes()) / (1 << 20),
               "MB shared by all clones");
  co_return Result<>();
}

}  // namespace firebreak::bench
