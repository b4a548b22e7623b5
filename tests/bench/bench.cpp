// firebreak-bench: what a machine costs, beside what process start costs and beside other
// sandboxes, in one run. Prints a table and writes bench.json; exits 1 when a measurement failed, 3
// when a required relation does not hold.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "bench/api_bench.h"
#include "bench/build_bench.h"
#include "bench/commands.h"
#include "bench/egress_bench.h"
#include "bench/endpoint_bench.h"
#include "bench/engine_bench.h"
#include "bench/peers_bench.h"

namespace firebreak::bench {
namespace {

using testing_support::world;

// One write of 4 MB with fsync: what durability alone costs a suspend on this disk.
Result<Samples> time_fsync(const std::string& directory) {
  Samples samples;
  const std::string content(4 << 20, 'f');
  for (int i = 0; i < 10; ++i) {
    const std::string path = directory + "/fsync-" + std::to_string(i);
    FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_WRONLY | O_CREAT, 0600));
    FB_TRY(sys::write_all(fd.get(), content));
    const Timer timer;
    if (::fsync(fd.get()) != 0) return fail_errno("fsync");
    samples.add(timer.ms());
    ::unlink(path.c_str());
  }
  return samples;
}

Task<Result<>> bench_sizes(Report& report, int count) {
  for (const std::uint32_t mib : {4096U, 32768U}) {
    FB_CO_TRY_ASSIGN(auto snapshot, co_await bench_snapshot(mib));
    const std::string suffix = "_" + std::to_string(mib / 1024) + "gib";
    FB_CO_TRY(co_await bench_lifecycle(report, snapshot, suffix, count));
    report.value("base_ram_mb" + suffix, static_cast<double>(snapshot->ram_bytes()) / (1 << 20),
                 "MB shared by all clones");
    if (mib == 4096) {
      FB_CO_TRY(co_await bench_dirty(report, snapshot, 4, count));
      FB_CO_TRY(co_await bench_dirty(report, snapshot, 500, 3));
    }
  }
  co_return Result<>();
}

// What the engine does by itself, with the smallest guest.
Task<Result<std::shared_ptr<machine::Snapshot>>> bench_engine(Report& report, bool quick) {
  FB_CO_TRY_ASSIGN(const Samples floor, time_commands({"qemu-system-x86_64", "--version"}, 20));
  report.time("qemu_floor", floor);
  FB_CO_TRY_ASSIGN(const Samples fsync, time_fsync(world().data_dir()));
  report.time("fsync_4mb", fsync);
  FB_CO_TRY_ASSIGN(auto snapshot, co_await bench_snapshot(256));
  FB_CO_TRY(co_await bench_lifecycle(report, snapshot, "", quick ? 5 : 20));
  FB_CO_TRY(co_await bench_exec(report, snapshot, quick ? 5 : 30));
  co_return snapshot;
}

Task<Result<>> measure(Report& report, bool quick) {
  FB_CO_TRY_ASSIGN(auto snapshot, co_await bench_engine(report, quick));
  FB_CO_TRY(bench_api(report, quick));
  FB_CO_TRY(bench_builds(report, quick ? 1 : 5));
  FB_CO_TRY(bench_egress(report, quick ? 2 : 10));
  FB_CO_TRY(bench_endpoint(report, quick ? 5 : 20));
  FB_CO_TRY(bench_proxy(report, quick ? 5000 : 50000));
  if (quick) co_return Result<>();
  FB_CO_TRY(co_await bench_channel(report, snapshot));
  FB_CO_TRY(co_await bench_cold_boot(report, 3));
  FB_CO_TRY(co_await bench_memory(report, snapshot));
  FB_CO_TRY(bench_peers(report, world().base_disk(), world().data_dir() + "/peers", 10));
  co_return co_await bench_sizes(report, 8);
}

void check_requirements(Report& report, bool quick) {
  const double floor = report.p50("qemu_floor");
  report.note("");
  report.require("parked_launch / qemu_floor", report.p50("parked_launch") / floor, 0.3);
  report.require("restore / qemu_floor", report.p50("restore") / floor, 4);
  report.require("lambda_run / lambda_run_native",
                 report.p50("lambda_run") / report.p50("lambda_run_native"), 1.2);
  report.require("resume / qemu_floor", report.p50("resume") / floor, 5);
  report.require("(suspend - one fsync) / qemu_floor",
                 (report.p50("suspend") - report.p50("fsync_4mb")) / floor, 1.5);
  report.require("what the API adds to a parked launch, ms", report.p50("api_launch_pool_added"),
                 2);
  if (quick) return;
  report.require("launches of a burst of 100 that failed", report.get("api_burst_100_failed"), 0);
  for (const char* name : {"restore", "parked_launch", "suspend", "resume"})
    report.require(std::string(name) + " at 32 GiB / at 256 MiB",
                   report.p50(std::string(name) + "_32gib") / report.p50(name), 1.6);
  report.require("parked launch + context_python / runsc python3 -c 1",
                 report.p50("parked_launch_context_python") / report.p50("runsc_python"), 0.1);
  report.require("private MB per idle clone with 50 clones", report.get("private_mb_idle_50"), 25);
  const double launch_python = report.p50("parked_launch") + report.p50("exec_python");
  report.value("parked launch + exec_python / runsc python",
               launch_python / report.p50("runsc_python"), "x");
  report.value("exec_python / bwrap_python", report.p50("exec_python") / report.p50("bwrap_python"),
               "x");
  report.value("parked_launch / bwrap_true", report.p50("parked_launch") / report.p50("bwrap_true"),
               "x");
}

struct Options {
  bool quick = false;
  std::string only;  // a part that stands alone; empty: everything
};

int finish(Report& report, const Result<>& measured) {
  if (!measured) {
    std::cerr << "the benchmark failed: " << measured.error().text() << "\n";
    return 1;
  }
  const char* build = std::getenv("FIREBREAK_BUILD_DIR");
  const std::string output = (build != nullptr ? std::string(build) + "/.." : ".") + "/bench.json";
  if (!report.write(output)) std::cerr << "cannot write " << output << "\n";
  std::cout << "written to " << output << "\n";
  return report.all_met() ? 0 : 3;
}

int main_of_bench(const Options& options) {
  Report report;
  Result<> measured;
  if (options.only == "api") {
    measured = bench_api(report, options.quick);
  } else if (options.only == "builds") {
    measured = bench_builds(report, options.quick ? 1 : 5);
  } else if (options.only == "egress") {
    measured = bench_egress(report, options.quick ? 2 : 10);
  } else if (options.only == "endpoint") {
    measured = bench_endpoint(report, options.quick ? 5 : 20);
  } else if (options.only == "proxy") {
    measured = bench_proxy(report, options.quick ? 5000 : 50000);
  } else if (options.only == "engine") {
    world().run([&]() -> Task<void> {
      auto engine = co_await bench_engine(report, options.quick);
      if (!engine) measured = std::unexpected(engine.error());
    });
  } else {
    world().run([&]() -> Task<void> { measured = co_await measure(report, options.quick); });
    if (measured) check_requirements(report, options.quick);
  }
  return finish(report, measured);
}

bool parse(std::span<char*> words, Options& options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--only" && i + 1 < words.size()) {
      options.only = words[++i];
    } else {
      return false;
    }
  }
  constexpr std::array<std::string_view, 7> kParts{"",       "api",      "builds", "egress",
                                                   "engine", "endpoint", "proxy"};
  return std::ranges::find(kParts, options.only) != kParts.end();
}

}  // namespace
}  // namespace firebreak::bench

int main(int argc, char** argv) {
  firebreak::bench::Options options;
  if (!firebreak::bench::parse(std::span(argv + 1, static_cast<std::size_t>(argc - 1)), options)) {
    std::cerr << "usage: firebreak-bench [--quick] [--only "
                 "api|builds|egress|endpoint|engine|proxy]   --quick: "
                 "only launch, "
                 "suspend, resume, exec at 256 MiB, and few of each\n";
    return 2;
  }
  return firebreak::bench::main_of_bench(options);
}
