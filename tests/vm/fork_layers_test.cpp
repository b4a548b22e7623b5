// Forks add a layer each; however many there were, a machine's chain of layers stays short, and
// everybody sees the disk of the moment they came from.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "machine/qemu/qcow2.h"
#include "machine/qemu/qemu_machine.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::fresh_identity;

constexpr std::size_t kMostLayers = 9;  // above the image's

class ForkLayers : public VmTest {};

const machine::MachineRecord& record_of(const Machine& machine) {
  return static_cast<const machine::QemuMachine&>(machine).record();
}

std::size_t layer_files(const std::string& id) {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(world().data_dir() + "/machines/" + id))
    if (entry.path().extension() == ".qcow2") ++count;
  return count;
}

std::size_t image_layers(const Machine& machine) {
  auto disk = world().engine().snapshot_disk(record_of(machine).snapshot);
  return disk ? 1 + disk->layers.size() : 0;
}

// A line at the end and a megabyte in place of an older one: layers that overlap.
Task<Result<std::string>> write_step(Machine& machine, int step) {
  const std::string n = std::to_string(step);
  co_return co_await shell(machine, "echo " + n + " >> /root/steps; head -c 200K /dev/urandom > " +
                                        "/root/data" + std::to_string(step % 3) +
                                        "; sync; cat /root/steps /root/data* | sha256sum");
}

Task<Result<std::string>> sum(Machine& machine) {
  // Not what the memory remembers of the disk.
  co_return co_await shell(
      machine, "echo 3 > /proc/sys/vm/drop_caches; cat /root/steps /root/data* | sha256sum");
}

Task<Result<std::string>> sum_of_resumed(const std::string& id) {
  FB_CO_TRY_ASSIGN(auto machine, co_await world().engine().resume(id, in_seconds(60)));
  FB_CO_TRY(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
  FB_CO_TRY_ASSIGN(std::string seen, co_await sum(*machine));
  FB_CO_TRY(co_await machine->terminate(in_seconds(20)));
  co_return seen;
}

TEST_F(ForkLayers, AParentOfManyKeepsFewLayers) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto parent, co_await world().launch(snapshot));
    const std::string id = parent->id();
    std::map<std::string, std::string> sums;
    std::string last;
    for (int step = 0; step < 30; ++step) {
      CO_VALUE(last, co_await write_step(*parent, step));
      const std::string child = id + "-" + std::to_string(step);
      CO_OK(co_await parent->fork({child}, in_seconds(60)));
      EXPECT_LE(record_of(*parent).disks.size(), image_layers(*parent) + kMostLayers);
      EXPECT_LE(layer_files(id), kMostLayers);
      // Some of those that share a layer which the parent has merged since.
      if (step % 7 == 0)
        sums[child] = last;
      else
        CO_OK(co_await world().engine().discard(child, in_seconds(20)));
    }
    for (const auto& [child, expected] : sums) {
      CO_VALUE(const std::string seen, co_await sum_of_resumed(child));
      EXPECT_EQ(seen, expected) << child;
    }
    CO_VALUE(const std::string running, co_await sum(*parent));
    EXPECT_EQ(running, last);
    CO_OK(co_await parent->suspend(in_seconds(60)));
    parent.reset();
    CO_VALUE(const std::string resumed, co_await sum_of_resumed(id));
    EXPECT_EQ(resumed, last);
  });
}

TEST_F(ForkLayers, SoDoesALongLineOfDescendants) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    std::string last;
    for (int generation = 0; generation < 12; ++generation) {
      CO_VALUE(last, co_await write_step(*machine, generation));
      const std::string child = world().next_id("descendant");
      CO_OK(co_await machine->fork({child}, in_seconds(60)));
      CO_OK(co_await machine->terminate(in_seconds(20)));
      CO_VALUE(machine, co_await world().engine().resume(child, in_seconds(60)));
      CO_OK(co_await machine->wake(fresh_identity(child, 2), in_seconds(60)));
      EXPECT_LE(record_of(*machine).disks.size(), image_layers(*machine) + kMostLayers);
      EXPECT_LE(layer_files(child), kMostLayers);
    }
    CO_VALUE(const std::string seen, co_await sum(*machine));
    EXPECT_EQ(seen, last);
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// The next daemon finds a machine that can be forked, however often, suspended and resumed.
Task<void> goes_on(const std::string& id, int forks) {
  auto engine = world().another_engine();
  CO_VALUE(auto machine, co_await engine->attach(id, in_seconds(60)));
  auto& monitor = static_cast<machine::QemuMachine&>(*machine).qmp();
  CO_VALUE(const json::value jobs, co_await monitor.execute("query-jobs", {}, in_seconds(10)));
  EXPECT_EQ(json::serialize(jobs), "[]");
  EXPECT_EQ(record_of(*machine).switching, 0U);
  for (const machine::DiskLayer& layer : record_of(*machine).disks)
    EXPECT_EQ(layer.path.find("unused"), std::string::npos);
  std::string last;
  for (int step = 0; step < forks; ++step) {
    CO_VALUE(last, co_await write_step(*machine, 100 + step));
    CO_OK(co_await machine->fork({}, in_seconds(60)));
    EXPECT_LE(layer_files(id), kMostLayers);
  }
  CO_OK(co_await machine->suspend(in_seconds(60)));
  machine.reset();
  CO_VALUE(const std::string resumed, co_await sum_of_resumed(id));
  EXPECT_EQ(resumed, last);
}

Task<Result<std::unique_ptr<Machine>>> forked_four_times() {
  FB_CO_TRY_ASSIGN(auto snapshot, co_await world().default_snapshot());
  FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
  for (int step = 0; step < 4; ++step) {
    FB_CO_TRY(co_await write_step(*machine, step));
    FB_CO_TRY(co_await machine->fork({}, in_seconds(60)));
  }
  co_return machine;
}

// The daemon is killed while QEMU merges layers, or when it has done so.
TEST_F(ForkLayers, AMergeThatNobodyWaitsForIsEnded) {
  for (const bool ended : {false, true}) {
    run([ended]() -> Task<void> {
      CO_VALUE(auto machine, co_await forked_four_times());
      const std::string id = machine->id();
      auto& monitor = static_cast<machine::QemuMachine&>(*machine).qmp();
      CO_OK(co_await monitor.execute(
          "block-stream",
          {{"job-id", "flatten"},
           {"device", "disk" + std::to_string(record_of(*machine).disks.size() - 1)},
           {"base-node", "disk1"},
           {"speed", ended ? 0 : 1024},  // slow enough to be still there
           {"auto-dismiss", false}},
          in_seconds(10)));
      for (std::string state; ended && state.find("concluded") == std::string::npos;) {
        CO_VALUE(const json::value jobs,
                 co_await monitor.execute("query-jobs", {}, in_seconds(10)));
        state = json::serialize(jobs);
      }
      machine.reset();
      co_await goes_on(id, 10);
    });
  }
}

// The daemon is killed when it has noted a new layer and QEMU does not use it yet, or does.
TEST_F(ForkLayers, ALayerThatQemuDidNotComeToUseIsForgotten) {
  for (const bool switched : {false, true}) {
    run([switched]() -> Task<void> {
      CO_VALUE(auto machine, co_await forked_four_times());
      machine::MachineRecord record = record_of(*machine);
      const std::string id = machine->id();
      machine.reset();
      const std::string directory = world().data_dir() + "/machines/" + id;
      record.switching = record.disks.size() - (switched ? 2 : 1);
      if (!switched) {
        const std::string unused = directory + "/disk-unused.qcow2";
        CO_OK(machine::create_qcow2(unused, 1UL << 30));
        record.disks.push_back({unused, machine::DiskFormat::qcow2, 0});
      }
      CO_OK(sys::replace_file(directory + "/machine.json", to_json_text(record)));
      co_await goes_on(id, 2);
    });
  }
}

}  // namespace
}  // namespace firebreak::testing_support
