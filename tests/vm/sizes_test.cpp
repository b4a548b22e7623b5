// Every size that AWS offers boots, becomes a snapshot, is cloned, suspended and resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/qemu/snapshot.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using namespace std::chrono_literals;

class Sizes : public VmTest, public testing::WithParamInterface<machine::Size> {};

// The guest has the CPUs and the memory it was asked for; its kernel keeps a part of the memory.
Task<void> expect_size(Machine& machine, machine::Size size) {
  CO_VALUE(
      const std::string out,
      co_await shell(machine, "nproc; sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"));
  unsigned cpus = 0;
  unsigned long long kib = 0;
  EXPECT_EQ(std::sscanf(out.c_str(), "%u\n%llu", &cpus, &kib), 2) << out;
  EXPECT_EQ(cpus, size.vcpus);
  const unsigned long long asked = 1024ULL * size.memory_mib;
  EXPECT_LE(kib, asked);
  EXPECT_GE(kib, asked / 100 * 93);
}

TEST_P(Sizes, WholeLife) {
  run([]() -> Task<void> {
    const machine::Size size = GetParam();
    machine::BootSpec spec{.id = world().next_id("boot"),
                           .size = size,
                           .disk = {.base = world().base_disk(), .layers = {}}};
    CO_VALUE(auto booted, co_await world().engine().boot(spec, in_seconds(300)));
    co_await expect_size(*booted, size);
    const std::string directory = world().data_dir() + "/snapshots/" + spec.id;
    CO_OK(co_await booted->snapshot(directory, in_seconds(300)));
    booted.reset();
    {
      CO_VALUE(auto snapshot, co_await world().engine().load(directory, in_seconds(120)));
      CO_VALUE(auto machine, co_await world().launch(snapshot));
      co_await expect_size(*machine, size);
      // Enough to lie in many places of memory; each page must find its own again.
      CO_OK(co_await shell(
          *machine, "head -c 8M /dev/urandom > /dev/shm/m; sha256sum < /dev/shm/m > /root/sum"));
      CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
      CO_OK(co_await machine->wake(machine::fresh_identity(machine->id(), 2), in_seconds(60)));
      co_await expect_size(*machine, size);
      CO_OK(co_await shell(*machine, "sha256sum < /dev/shm/m | cmp - /root/sum"));
      CO_OK(co_await machine->terminate(in_seconds(30)));
    }
    CO_OK(machine::remove_snapshot(directory, in_seconds(10)));
  });
}

// Baseline 512, 1024, 2048, 4096, 8192 MiB: the guest sees four times that.
const auto kSizes =
    testing::Values(machine::Size{1, 2048}, machine::Size{2, 4096}, machine::Size{4, 8192},
                    machine::Size{8, 16384}, machine::Size{16, 32768});

INSTANTIATE_TEST_SUITE_P(Aws, Sizes, kSizes, [](const auto& param) {
  return std::to_string(param.param.vcpus) + "cpus" + std::to_string(param.param.memory_mib) +
         "MiB";
});

}  // namespace
}  // namespace firebreak::testing_support
