// Disk layers of a booted machine: each cut holds what was written since the one before, a machine
// can be booted from any of them, and a snapshot has one layer whatever it was made of.
#include <ctime>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

class Layers : public VmTest {};

machine::BootSpec boot_spec(std::vector<std::string> layers) {
  return {.id = world().next_id("layers"),
          .size = {.vcpus = 1, .memory_mib = 256},
          .disk = {.base = world().base_disk(), .layers = std::move(layers)}};
}

Task<Result<std::vector<std::string>>> three_layers() {
  const std::string directory = world().data_dir() + "/layers";
  FB_CO_TRY(sys::mkdirs(directory, 0700));
  FB_CO_TRY_ASSIGN(auto machine, co_await world().engine().boot(boot_spec({}), in_seconds(300)));
  std::vector<std::string> paths;
  for (const char* const step : {"one", "two", "three"}) {
    paths.push_back(directory + "/" + step);
    FB_CO_TRY(co_await shell(*machine, std::string("echo ") + step + " >> /root/steps; " +
                                           "head -c 1M /dev/urandom > /root/" + step));
    FB_CO_TRY(co_await machine->cut_layer(paths.back(), in_seconds(60)));
  }
  FB_CO_TRY(co_await shell(*machine, "echo never >> /root/steps"));
  FB_CO_TRY(co_await machine->terminate(in_seconds(20)));
  co_return paths;
}

TEST_F(Layers, EachHoldsWhatWasWrittenUntilItsCut) {
  run([]() -> Task<void> {
    CO_VALUE(const auto paths, co_await three_layers());
    for (const std::string& path : paths) {
      struct stat st{};
      CO_ASSERT(::stat(path.c_str(), &st) == 0);
      EXPECT_EQ(st.st_mode & 0777, 0400U);
      EXPECT_GT(st.st_blocks * 512, 1 << 20);
    }
    CO_VALUE(auto middle,
             co_await world().engine().boot(boot_spec({paths[0], paths[1]}), in_seconds(300)));
    CO_VALUE(const std::string seen,
             co_await shell(*middle, "cat /root/steps; test ! -e /root/three"));
    EXPECT_EQ(seen, "one\ntwo\n");
    CO_OK(co_await middle->terminate(in_seconds(20)));

    CO_VALUE(auto machine, co_await world().engine().boot(boot_spec(paths), in_seconds(300)));
    CO_VALUE(const std::string sums, co_await shell(*machine, "cd /root; sha256sum one two three"));
    const std::string directory = world().data_dir() + "/snapshots/flat";
    CO_OK(co_await machine->snapshot(directory, in_seconds(300)));
    CO_VALUE(const auto record, sys::read_file(directory + "/snapshot.json"));
    for (const std::string& path : paths) {
      EXPECT_EQ(record.find(path), std::string::npos)
          << "the snapshot stands on a layer of a build";
      CO_OK(sys::remove_tree(path));
    }
    CO_VALUE(auto snapshot, co_await world().engine().load(directory, in_seconds(60)));
    CO_VALUE(auto clone, co_await world().launch(snapshot));
    CO_OK(co_await shell(*clone, "echo 3 > /proc/sys/vm/drop_caches || true"));
    CO_VALUE(const std::string again, co_await shell(*clone, "cd /root; sha256sum one two three"));
    EXPECT_EQ(again, sums);
    CO_VALUE(const std::string steps, co_await shell(*clone, "cat /root/steps"));
    EXPECT_EQ(steps, "one\ntwo\nthree\n");
    CO_OK(co_await clone->terminate(in_seconds(20)));
  });
}

// One frozen kernel under disks that it has never seen, several times.
TEST_F(Layers, AFrozenKernelMountsWhateverDiskItIsGiven) {
  run([]() -> Task<void> {
    std::vector<std::string> layers;
    std::vector<std::string> ids;
    for (const char* const step : {"one", "two", "three"}) {
      machine::BootSpec spec = boot_spec(layers);
      spec.throwaway = true;
      CO_VALUE(auto machine, co_await world().engine().boot(spec, in_seconds(300)));
      layers.push_back(world().data_dir() + "/layers/prepared-" + step);
      CO_VALUE(const std::string seen,
               co_await shell(*machine, std::string("echo ") + step +
                                            " >> /root/prepared; cat /root/prepared; "
                                            "cat /etc/machine-id; date +%s"));
      EXPECT_TRUE(seen.starts_with(layers.size() == 1   ? "one\n"
                                   : layers.size() == 2 ? "one\ntwo\n"
                                                        : "one\ntwo\nthree\n"))
          << seen;
      ids.push_back(seen.substr(seen.size() - 44, 32));
      const long drift = std::stol(seen.substr(seen.size() - 11)) - ::time(nullptr);
      EXPECT_LT(std::abs(drift), 30) << seen;
      CO_OK(co_await machine->cut_layer(layers.back(), in_seconds(60)));
      const auto refused =
          co_await machine->snapshot(world().data_dir() + "/snapshots/no", in_seconds(60));
      EXPECT_FALSE(refused);
      CO_OK(co_await machine->terminate(in_seconds(20)));
    }
    EXPECT_NE(ids[0], ids[1]);
    EXPECT_NE(ids[1], ids[2]);
  });
}

// As many as the steps of a long Dockerfile.
TEST_F(Layers, ThereMayBeMany) {
  run([]() -> Task<void> {
    const std::string directory = world().data_dir() + "/many";
    CO_OK(sys::mkdirs(directory, 0700));
    CO_VALUE(auto machine, co_await world().engine().boot(boot_spec({}), in_seconds(300)));
    for (int i = 0; i < 40; ++i)
      CO_OK(co_await machine->cut_layer(directory + "/" + std::to_string(i), in_seconds(60)));
    CO_VALUE(const std::string alive,
             co_await shell(*machine, "echo alive > /root/f; cat /root/f"));
    EXPECT_EQ(alive, "alive\n");
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Layers, OfACloneCannotBeCut) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto clone, co_await world().launch(snapshot));
    const auto cut = co_await clone->cut_layer(world().data_dir() + "/layers/no", in_seconds(20));
    CO_ASSERT(!cut);
    EXPECT_EQ(cut.error().code, Code::conflict);
    CO_OK(co_await clone->terminate(in_seconds(20)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
