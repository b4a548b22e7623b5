// The life of a machine on any engine.
#include "vm/engine_conformance.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::testing_support {
namespace {

using machine::Feature;
using machine::Identity;
using testing::Contains;
using testing::Not;

// The rest of the test needs it.
#define REQUIRE_FEATURE(feature)             \
  if (!offers(feature))                      \
  GTEST_SKIP() << engine().name()            \
               << " does not offer it: see " \
                  "WhatIsNotOfferedIsRefused"

// ------------------------------------------------------------------------- boot, snapshot, restore

TEST_P(EngineConformance, ABootedMachineRunsCommandsAndIsCounted) {
  run([]() -> Task<void> {
    EXPECT_EQ(engine().name(), GetParam().name);
    machine::BootSpec spec = boot_spec();
    spec.throwaway = true;
    CO_VALUE(auto machine, co_await engine().boot(spec, in_seconds(300)));
    EXPECT_EQ(machine->id(), spec.id);
    EXPECT_EQ(machine->isolation(), engine().isolation());
    EXPECT_EQ(machine->size(), spec.size);
    EXPECT_GT(machine->pid(), 0);
    EXPECT_FALSE(machine->phases().empty());
    CO_VALUE(const std::string out, co_await shell(*machine, "echo hello; exec 2>&1; id -un"));
    EXPECT_EQ(out, "hello\nroot\n");
    const auto listed = found(spec.id);
    CO_ASSERT(listed.has_value());
    EXPECT_TRUE(listed->process);
    EXPECT_FALSE(listed->suspended);
    CO_VALUE(const machine::ProcessUsage before, machine->usage());
    EXPECT_GT(before.memory_bytes, 0U);
    CO_OK(co_await shell(*machine, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"));
    CO_VALUE(const machine::ProcessUsage after, machine->usage());
    EXPECT_GT(after.cpu_usec, before.cpu_usec);
    const auto taken = co_await engine().boot(spec, in_seconds(60));
    CO_ASSERT(!taken);
    EXPECT_EQ(taken.error().code, Code::conflict);
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_P(EngineConformance, ASnapshotIsFoundAndItsMachineIsGone) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await sampler());
    CO_VALUE(const auto machines, engine().list());
    EXPECT_TRUE(machines.empty());
    CO_VALUE(const auto names, engine().snapshots());
    EXPECT_THAT(names, Contains("sampler"));
    EXPECT_EQ(base.snapshot->directory(), sampler_directory());
    EXPECT_GT(base.snapshot->ram_bytes(), 0U);
    EXPECT_EQ(base.snapshot->size(), boot_spec().size);
    const machine::SnapshotBytes bytes = engine().snapshot_bytes(sampler_directory());
    EXPECT_GT(bytes.disk + bytes.memory, 0U);
    CO_VALUE(const machine::DiskContent disk, engine().snapshot_disk(sampler_directory()));
    EXPECT_FALSE(disk.base.empty());
    CO_VALUE(const machine::Inventory all, engine().inventory());
    EXPECT_EQ(all.engine, engine().name());
    EXPECT_THAT(all.snapshots, Contains("sampler"));
    EXPECT_TRUE(all.missing_disks.empty());
  });
}

TEST_P(EngineConformance, NoInstructionOfACloneRunsBeforeClockEntropyAndIdentityAreNew) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await sampler());
    Probe probe = base.probe;
    const Identity identity = machine::fresh_identity(next_id(), 1);
    CO_VALUE(auto machine,
             co_await engine().restore(base.snapshot, {.id = identity.hostname}, in_seconds(120)));
    co_await expect_frozen(*machine);
    CO_OK(co_await machine->wake(identity, in_seconds(60)));
    co_await expect_right_clock(*machine, probe);
    CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
    expect_clean_crossing(report, 1, identity);
    CO_OK(co_await machine->terminate(in_seconds(10)));
    EXPECT_FALSE(found(identity.hostname));
  });
}

TEST_P(EngineConformance, ADamagedSnapshotIsRefused) {
  run([]() -> Task<void> {
    CO_OK(co_await sampler());
    for (const std::string& part : GetParam().snapshot_parts) {
      // Not from memory.
      CO_OK(co_await engine().unload(sampler_directory(), in_seconds(10)));
      const std::string path = sampler_directory() + "/" + part;
      std::filesystem::rename(path, path + ".whole");
      std::ofstream(path) << "damaged";
      const auto loaded = co_await engine().load(sampler_directory(), in_seconds(60));
      std::filesystem::rename(path + ".whole", path);
      CO_ASSERT(!loaded);
      EXPECT_EQ(loaded.error().code, Code::corrupt) << part << ": " << loaded.error().text();
    }
    CO_OK(co_await engine().load(sampler_directory(), in_seconds(120)));
  });
}

// ------------------------------------------------------------------------------------- park,
// layers

TEST_P(EngineConformance, AParkedCloneCostsNoCpuAndWakes) {
  REQUIRE_FEATURE(Feature::park);
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await sampler());
    Probe probe = base.probe;
    const Identity identity = machine::fresh_identity(next_id(), 1);
    CO_VALUE(auto machine,
             co_await engine().restore(base.snapshot, {.id = identity.hostname}, in_seconds(60)));
    CO_OK(co_await machine->rehearse(in_seconds(60)));
    CO_OK(co_await machine->park(in_seconds(60)));
    const auto parked = found(identity.hostname);
    CO_ASSERT(parked.has_value());
    EXPECT_TRUE(parked->parked);
    CO_VALUE(const machine::ProcessUsage before, machine->usage());
    co_await pause(std::chrono::milliseconds(500));
    CO_VALUE(const machine::ProcessUsage after, machine->usage());
    EXPECT_LT(after.cpu_usec - before.cpu_usec, 250'000U) << "it does not stand still";
    CO_OK(co_await machine->unpark(identity, in_seconds(60)));
    CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
    expect_clean_crossing(report, 1, identity);
    CO_VALUE(const std::string out, co_await shell(*machine, "hostname"));
    EXPECT_EQ(out, identity.hostname + "\n");
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_P(EngineConformance, ALayerHoldsWhatWasWrittenUntilItsCut) {
  REQUIRE_FEATURE(Feature::cut_layers);
  run([]() -> Task<void> {
    machine::BootSpec spec = boot_spec();
    spec.throwaway = true;
    CO_VALUE(auto machine, co_await engine().boot(spec, in_seconds(300)));
    CO_OK(co_await shell(*machine, "echo one > /root/steps"));
    const std::string layer = GetParam().layer_path("one");
    CO_OK(co_await machine->cut_layer(layer, in_seconds(60)));
    CO_VALUE(const std::string kept,
             co_await shell(*machine, "echo two >> /root/steps; cat /root/steps"));
    EXPECT_EQ(kept, "one\ntwo\n");
    CO_OK(co_await machine->terminate(in_seconds(20)));
    spec.id = next_id();
    spec.disk.layers = {layer};
    CO_VALUE(machine, co_await engine().boot(spec, in_seconds(300)));
    CO_VALUE(const std::string seen, co_await shell(*machine, "cat /root/steps"));
    EXPECT_EQ(seen, "one\n");
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// ------------------------------------------------------------------------------------ suspend,
// fork

TEST_P(EngineConformance, SuspendAndResumeKeepMemoryAndDisk) {
  REQUIRE_FEATURE(Feature::suspend);
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    CO_OK(co_await shell(*machine, "echo unsynced > /root/f; echo memory > /dev/shm/m"));
    const std::string id = machine->id();
    CO_OK(co_await machine->suspend(in_seconds(60)));
    machine.reset();
    EXPECT_TRUE(engine().is_suspended(id));
    EXPECT_GT(engine().stored_bytes(id), 0U);
    const auto asleep = found(id);
    CO_ASSERT(asleep.has_value());
    EXPECT_TRUE(asleep->suspended);
    EXPECT_FALSE(asleep->process);
    EXPECT_TRUE(asleep->strays.empty());
    CO_VALUE(machine, co_await resume(id, 2));
    EXPECT_FALSE(engine().is_suspended(id));
    CO_VALUE(const std::string out, co_await shell(*machine, "cat /root/f /dev/shm/m"));
    EXPECT_EQ(out, "unsynced\nmemory\n");
    // What was saved is spent: nobody can have the same machine twice.
    const auto again = co_await engine().resume(id, in_seconds(60));
    CO_ASSERT(!again);
    EXPECT_EQ(again.error().code, Code::conflict);
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_P(EngineConformance, NoInstructionRunsAfterAResumeBeforeClockEntropyAndIdentityAreNew) {
  REQUIRE_FEATURE(Feature::suspend);
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await sampler());
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await launch());
    CO_VALUE(const SamplerReport launched, co_await sampler_report(*machine, probe));
    CO_ASSERT(launched.crossings.size() == 1);
    const std::string id = machine->id();
    for (std::uint64_t generation = 2; generation <= 3; ++generation) {
      CO_OK(co_await machine->suspend(in_seconds(60)));
      CO_VALUE(machine, co_await engine().resume(id, in_seconds(60)));
      co_await expect_frozen(*machine);
      const Identity identity =
          machine::fresh_identity("resumed-" + std::to_string(generation), generation);
      CO_OK(co_await machine->wake(identity, in_seconds(60)));
      co_await expect_right_clock(*machine, probe);
      CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
      expect_clean_crossing(report, generation, identity);
    }
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_P(EngineConformance, ForkedChildrenStartFromTheParentsMomentAndDiverge) {
  REQUIRE_FEATURE(Feature::fork);
  run([]() -> Task<void> {
    CO_VALUE(auto parent, co_await launch());
    CO_OK(co_await shell(*parent, "echo common > /root/f; echo ram > /dev/shm/m"));
    CO_OK(co_await parent->fork({"child-a", "child-b"}, in_seconds(60)));
    CO_OK(co_await shell(*parent, "echo parent > /root/f"));
    for (const std::string id : {"child-a", "child-b"}) {
      EXPECT_TRUE(engine().is_suspended(id));
      CO_VALUE(auto child, co_await resume(id, 2));
      CO_VALUE(
          const std::string out,
          co_await shell(*child, "cat /root/f /dev/shm/m; hostname; echo child > /root/f; sync"));
      EXPECT_EQ(out, "common\nram\n" + id + "\n");
      CO_OK(co_await child->terminate(in_seconds(60)));
    }
    CO_VALUE(const std::string out, co_await shell(*parent, "cat /root/f"));
    EXPECT_EQ(out, "parent\n");
    // The parent must suspend and resume all the same.
    const std::string id = parent->id();
    CO_OK(co_await parent->suspend(in_seconds(60)));
    parent.reset();
    CO_VALUE(parent, co_await resume(id, 3));
    CO_VALUE(const std::string again, co_await shell(*parent, "cat /root/f /dev/shm/m"));
    EXPECT_EQ(again, "parent\nram\n");
    CO_OK(co_await parent->terminate(in_seconds(60)));
  });
}

// ------------------------------------------------------------------------------ ends, restarts,
// limits

TEST_P(EngineConformance, TheEndOfAProcessIsNoticed) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    EXPECT_FALSE(co_await machine->wait_exit(in_seconds(0)));
    CO_ASSERT(::kill(machine->pid(), SIGKILL) == 0);
    EXPECT_TRUE(co_await machine->wait_exit(in_seconds(30)));
    EXPECT_FALSE(co_await shell(*machine, "true"));
    CO_OK(co_await machine->terminate(in_seconds(60)));
    EXPECT_FALSE(found(machine->id()));
  });
}

TEST_P(EngineConformance, NothingIsLeftOfWhatIsDiscarded) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    const std::string id = machine->id();
    machine.reset();
    CO_OK(co_await engine().discard(id, in_seconds(20)));
    EXPECT_FALSE(found(id));
    CO_OK(co_await engine().discard(id, in_seconds(20)));
    EXPECT_FALSE(co_await engine().attach(id, in_seconds(20)));
    EXPECT_FALSE(co_await engine().resume(id, in_seconds(20)));
  });
}

TEST_P(EngineConformance, ARestartedDaemonFindsItsMachines) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    CO_OK(co_await shell(*machine, "echo before > /dev/shm/m"));
    const std::string id = machine->id();
    machine.reset();  // the daemon is gone; the guest is not
    const auto later = GetParam().restarted();
    CO_VALUE(machine, co_await later->attach(id, in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*machine, "cat /dev/shm/m"));
    EXPECT_EQ(out, "before\n");
    if (later->features().contains(Feature::suspend)) {
      CO_OK(co_await machine->suspend(in_seconds(60)));
      machine.reset();
      const auto last = GetParam().restarted();
      const auto attached = co_await last->attach(id, in_seconds(60));
      CO_ASSERT(!attached);
      EXPECT_EQ(attached.error().code, Code::conflict) << "it is suspended";
      CO_VALUE(machine, co_await last->resume(id, in_seconds(60)));
      CO_OK(co_await machine->wake(machine::fresh_identity(id, 2), in_seconds(60)));
      CO_VALUE(const std::string again, co_await shell(*machine, "cat /dev/shm/m"));
      EXPECT_EQ(again, "before\n");
      CO_OK(co_await machine->terminate(in_seconds(60)));
      machine.reset();
    } else {
      CO_OK(co_await machine->terminate(in_seconds(60)));
      machine.reset();
    }
  });
}

TEST_P(EngineConformance, LimitsHoldFromTheMomentTheyAreSet) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    machine::HostLimits limits;
    limits.cpu_percent = 20;
    CO_OK(machine->set_limits(limits));
    CO_VALUE(const machine::ProcessUsage before, machine->usage());
    const auto began = std::chrono::steady_clock::now();
    // The sampler in it never rests.
    co_await pause(std::chrono::milliseconds(1500));
    CO_VALUE(const machine::ProcessUsage after, machine->usage());
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - began);
    EXPECT_LT((after.cpu_usec - before.cpu_usec) * 2, static_cast<std::uint64_t>(took.count()));
    limits.cpu_percent = 0;
    CO_OK(machine->set_limits(limits));
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

// -----------------------------------------------------------------------------------------
// features

TEST_P(EngineConformance, WhatIsNotOfferedIsRefused) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await sampler());
    if (!offers(Feature::network)) {
      const std::string id = next_id();
      const auto made =
          co_await engine().restore(base.snapshot, {.id = id, .network = true}, in_seconds(60));
      CO_ASSERT(!made);
      EXPECT_EQ(made.error().code, Code::unavailable) << made.error().text();
      EXPECT_FALSE(found(id)) << "half a machine is left";
    }
    CO_VALUE(auto machine, co_await launch());
    const auto expect_refused = [](const Result<>& result) {
      if (result) {
        ADD_FAILURE() << "it was not refused";
        return;
      }
      EXPECT_EQ(result.error().code, Code::unavailable) << result.error().text();
    };
    if (!offers(Feature::fork)) expect_refused(co_await machine->fork({next_id()}, in_seconds(60)));
    if (!offers(Feature::suspend)) expect_refused(co_await machine->suspend(in_seconds(60)));
    if (!offers(Feature::park)) expect_refused(co_await machine->park(in_seconds(60)));
    if (!offers(Feature::cut_layers))
      expect_refused(co_await machine->cut_layer(GetParam().layer_path("no"), in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*machine, "echo alive"));
    EXPECT_EQ(out, "alive\n");
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_P(EngineConformance, ARemovedSnapshotIsGone) {
  run([]() -> Task<void> {
    const std::string directory = engine().snapshot_directory("half");
    std::filesystem::create_directories(directory);
    CO_VALUE(auto names, engine().snapshots());
    EXPECT_THAT(names, Contains("half"));
    CO_OK(co_await engine().repair({.kind = "snapshot", .name = "half"}, in_seconds(20)));
    CO_VALUE(names, engine().snapshots());
    EXPECT_THAT(names, Not(Contains("half")));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
