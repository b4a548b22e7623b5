#include "machine/qemu/host_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace firebreak::machine {
namespace {

TEST(HostCpu, IsTheSameOnEveryCore) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const std::string cpu = host_cpu();
  EXPECT_THAT(cpu, testing::MatchesRegex("[ -~]*, [0-9a-f]{8}, [0-9a-f]{16}"));
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(host_cpu(), cpu) << "core " << core;
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

}  // namespace
}  // namespace firebreak::machine
