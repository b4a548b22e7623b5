// The wake barrier at the edges: no instruction of the tenant runs between a restore and its new
// clock, random numbers and identity. Launch and resume are in engine_conformance_test.cpp.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vm/probe.h"

namespace firebreak::testing_support {
namespace {

using namespace std::chrono_literals;
using machine::Identity;

class Barrier : public VmTest {};

TEST_F(Barrier, Fork) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(true));
    Probe probe = base.probe;
    CO_VALUE(auto parent, co_await world().launch(base.snapshot));
    CO_VALUE(const SamplerReport launched, co_await sampler_report(*parent, probe));
    CO_ASSERT(launched.crossings.size() == 1);
    CO_OK(co_await parent->fork({"child-a", "child-b"}, in_seconds(60)));
    std::string randoms[2];
    for (int i = 0; i < 2; ++i) {
      Probe own = probe;
      const Identity identity = machine::fresh_identity(i == 0 ? "child-a" : "child-b", 2);
      CO_VALUE(auto child, co_await world().engine().resume(identity.hostname, in_seconds(60)));
      co_await expect_frozen(*child);
      CO_OK(co_await child->wake(identity, in_seconds(60)));
      co_await expect_right_clock(*child, own);
      CO_VALUE(const SamplerReport report, co_await sampler_report(*child, own));
      expect_clean_crossing(report, 2, identity);
      if (report.crossings.size() == 2) randoms[i] = report.crossings[1].after.random;
      CO_OK(co_await child->terminate(in_seconds(10)));
    }
    EXPECT_NE(randoms[0], randoms[1]);
    // The parent stays who it was, and its clock does not lag behind by the pause.
    co_await expect_right_clock(*parent, probe);
    CO_VALUE(const SamplerReport report, co_await sampler_report(*parent, probe));
    EXPECT_EQ(report.identity_changes, launched.identity_changes);
    CO_OK(co_await parent->terminate(in_seconds(10)));
  });
}

TEST_F(Barrier, AForkDoesNotSetTheParentsClockBack) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(false));
    Probe probe = base.probe;
    CO_VALUE(auto parent, co_await world().launch(base.snapshot));
    machine::FaultPoints& faults = world().engine().host().faults();
    faults.set([](std::string_view point) {
      if (point == "forked") std::this_thread::sleep_for(500ms);
    });
    const auto forked = co_await parent->fork({"child"}, in_seconds(60));
    faults.set(nullptr);
    CO_OK(forked);
    co_await expect_right_clock(*parent, probe);
    CO_OK(co_await world().engine().discard("child", in_seconds(10)));
    CO_OK(co_await parent->terminate(in_seconds(10)));
  });
}

// What a tenant can see of other processes and of files, in a form that two clones of a snapshot
// share.
constexpr const char* kView = R"sh(
for p in /proc/[0-9]*; do cat $p/comm 2> /dev/null; done | grep -vxE 'sh|cat|grep|sort|find|dash' | sort
find / /dev/shm /tmp -xdev ! -path '/proc*' -printf '%p %y %s %m %T@\n' | grep -vE '^/(etc/(machine-id|hostname|hosts)|dev/shm/count|proc) ' | sort
)sh";

TEST_F(Barrier, RehearsalAndParkingAreInvisible) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(true));
    std::string views[2];
    std::string execs[2];
    for (const bool rehearsed : {false, true}) {
      Probe probe = base.probe;
      const Identity identity = machine::fresh_identity(world().next_id(), 1);
      CO_VALUE(auto machine, co_await world().engine().restore(
                                 base.snapshot, {.id = identity.hostname}, in_seconds(120)));
      CO_VALUE(const std::uint64_t count, co_await samples_taken(*machine));
      if (rehearsed) {
        CO_OK(co_await machine->rehearse(in_seconds(60)));
        co_await expect_frozen(*machine);
        CO_VALUE(const std::uint64_t after, co_await samples_taken(*machine));
        EXPECT_EQ(after, count);
      }
      CO_VALUE(const json::object list,
               co_await machine->agent().data_call("GET", "/execs", {}, in_seconds(60)));
      for (const json::value& exec : list.at("execs").as_array())
        execs[rehearsed ? 1 : 0] +=
            json::serialize(exec.at("id")) + json::serialize(exec.at("running"));
      if (rehearsed) {
        CO_OK(co_await machine->park(in_seconds(10)));
        co_await pause(300ms);
        CO_OK(co_await machine->unpark(identity, in_seconds(60)));
      } else {
        CO_OK(co_await machine->wake(identity, in_seconds(60)));
      }
      co_await expect_right_clock(*machine, probe);
      CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
      expect_clean_crossing(report, 1, identity);
      CO_OK(co_await probe.ask(*machine, "sampling = False"));
      CO_VALUE(views[rehearsed ? 1 : 0], co_await shell(*machine, kView));
      // Later commands get process ids of their own, and their children are reaped.
      CO_VALUE(const std::string ids,
               co_await shell(*machine, "echo $$; test -d /proc/$$ && (sh -c 'echo $$') && wait"));
      int first = 0;
      int second = 0;
      EXPECT_EQ(std::sscanf(ids.c_str(), "%d\n%d", &first, &second), 2) << ids;
      EXPECT_GT(first, 1);
      EXPECT_GT(second, first);
      CO_OK(co_await machine->terminate(in_seconds(10)));
    }
    EXPECT_EQ(execs[1], execs[0]);
    EXPECT_THAT(views[0], testing::HasSubstr("python3\n"));
    EXPECT_TRUE(views[1] == views[0]) << "a rehearsed clone differs from one that is not";
  });
}

}  // namespace
}  // namespace firebreak::testing_support
