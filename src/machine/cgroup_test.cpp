#include "machine/cgroup.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

using std::chrono::seconds;

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() : root_("fb-test-" + sys::random_hex(4)) {}
  ~CgroupTest() override {
    for (const std::string& name : *root_.list())
      EXPECT_TRUE(root_.open(name)->destroy(Deadline::in(seconds(5))));
    EXPECT_TRUE(root_.remove());
  }

  // A process inside the group.
  static pid_t start_inside(const Cgroup& group, void (*work)()) {
    const auto join = group.open_join();
    if (!join) return -1;
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    for (const UniqueFd& tasks : join->v1_tasks) {
      if (::write(tasks.get(), "0", 1) != 1) ::_exit(1);
    }
    if (join->v2_directory) {
      const int procs = ::openat(join->v2_directory.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
      if (::write(procs, "0", 1) != 1) ::_exit(1);
    }
    work();
    ::_exit(0);
  }

  CgroupRoot root_;
};

TEST_F(CgroupTest, HostHasWhatWeNeed) {
  const CgroupSupport support = probe_cgroups();
  EXPECT_NE(support.version, CgroupVersion::none);
  EXPECT_THAT(support.missing, testing::IsEmpty()) << support.text();
}

TEST_F(CgroupTest, AllGroupsTogetherWeighAsOneProcessOnEachCpu) {
  const CgroupSupport support = probe_cgroups();
  if (support.version != CgroupVersion::v1) GTEST_SKIP() << "no cgroup v1 here";
  const std::string name = "fb-test-" + sys::random_hex(4);
  const CgroupRoot root(name);
  const auto group = root.create("vm-1", {.cpu_weight = 100});
  ASSERT_TRUE(group) << group.error().text();
  const auto shares =
      sys::read_file(support.v1_mounts.at("cpu") + "/" + name + "/cpu.shares").value_or("");
  EXPECT_EQ(shares, std::to_string(1024 * std::thread::hardware_concurrency()) + "\n");
  EXPECT_TRUE(group->destroy(Deadline::in(seconds(5))));
  EXPECT_TRUE(root.remove());
}

TEST_F(CgroupTest, CachedFilesAreNotHeldMemory) {
  const auto group = root_.create("vm-1", {.memory_max_bytes = 256 << 20});
  ASSERT_TRUE(group) << group.error().text();
  const pid_t pid = start_inside(*group, [] {
    const std::string path =
        std::filesystem::path("/var/tmp") / ("fb-cached-" + std::to_string(::getpid()));
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    static char block[1 << 20];
    for (int i = 0; i < 64; ++i) (void)!::write(fd, block, sizeof block);
    ::unlink(path.c_str());
    static char held[32 << 20];
    std::memset(held, 1, sizeof held);
    ::pause();
  });
  ASSERT_GT(pid, 0);
  std::uint64_t held = 0;
  for (const Deadline until = Deadline::in(seconds(20)); held < 32U << 20 && !until.passed();) {
    const auto usage = group->usage();
    ASSERT_TRUE(usage) << usage.error().text();
    held = usage->memory_bytes;
  }
  EXPECT_GE(held, 32U << 20);
  EXPECT_LT(held, 60U << 20) << "the cache of 64 MiB is counted";
  ASSERT_TRUE(group->destroy(Deadline::in(seconds(5))));
  ::waitpid(pid, nullptr, 0);
}

TEST_F(CgroupTest, LifeOfAGroup) {
  const auto group = root_.create(
      "vm-1",
      {.memory_max_bytes = 64 << 20, .cpu_weight = 50, .cpu_quota_percent = 150, .pids_max = 20});
  ASSERT_TRUE(group) << group.error().text();
  EXPECT_EQ(root_.create("vm-1", {}).error().code, Code::conflict);
  EXPECT_THAT(*root_.list(), testing::ElementsAre("vm-1"));
  EXPECT_EQ(root_.remove().error().code, Code::conflict);
  const auto usage = group->usage();
  ASSERT_TRUE(usage) << usage.error().text();
  EXPECT_EQ(usage->oom_kills, 0U);
  EXPECT_THAT(*group->processes(), testing::IsEmpty());

  const auto reopened = root_.open("vm-1");
  ASSERT_TRUE(reopened);
  EXPECT_TRUE(reopened->destroy(Deadline::in(seconds(5))));
  EXPECT_TRUE(group->destroy(Deadline::in(seconds(5))));
  EXPECT_THAT(*root_.list(), testing::IsEmpty());
  EXPECT_EQ(root_.open("vm-1").error().code, Code::not_found);
}

// A clone is parked without limits and gets those of its microVM when it is wanted.
TEST_F(CgroupTest, AGroupWithoutLimitsIsCountedAndGetsThemLater) {
  const auto group = root_.create("vm-1", {});
  ASSERT_TRUE(group) << group.error().text();
  const auto usage = group->usage();
  EXPECT_TRUE(usage) << usage.error().text();
  const auto limited = group->apply(
      {.memory_max_bytes = 64 << 20, .cpu_weight = 50, .cpu_quota_percent = 150, .pids_max = 20});
  EXPECT_TRUE(limited) << limited.error().text();
}

TEST_F(CgroupTest, RefusesNamesThatAreNotOurs) {
  for (const char* bad : {"", ".", "..", "a/b", "../x", "cgroup.procs", "a b"}) {
    EXPECT_EQ(root_.create(bad, {}).error().code, Code::invalid) << bad;
    EXPECT_EQ(root_.open(bad).error().code, Code::invalid) << bad;
  }
}

TEST_F(CgroupTest, DestroyKillsWhatIsLeft) {
  const auto group = root_.create("vm-1", {});
  ASSERT_TRUE(group);
  const pid_t pid = start_inside(*group, [] {
    for (;;) ::pause();
  });
  ASSERT_GT(pid, 0);
  for (int i = 0; i < 1000 && group->processes()->empty(); ++i) ::usleep(1000);
  EXPECT_THAT(*group->processes(), testing::ElementsAre(pid));
  ASSERT_TRUE(group->destroy(Deadline::in(seconds(5))));
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(CgroupTest, MemoryLimitKillsAndIsCounted) {
  const auto group = root_.create("vm-1", {.memory_max_bytes = 16 << 20});
  ASSERT_TRUE(group);
  const pid_t pid = start_inside(*group, [] {
    constexpr std::size_t kBytes = 64 << 20;
    auto* memory = static_cast<volatile char*>(std::malloc(kBytes));
    for (std::size_t i = 0; i < kBytes; i += 4096) memory[i] = 1;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto usage = group->usage();
  ASSERT_TRUE(usage);
  EXPECT_GE(usage->oom_kills, 1U);
  EXPECT_GT(usage->cpu_usec, 0U);
}

TEST(CgroupSettings, AreThoseOfEachVersion) {
  const CgroupLimits limits{
      .memory_max_bytes = 1000, .cpu_weight = 200, .cpu_quota_percent = 1600, .pids_max = 7};
  using S = CgroupSetting;
  EXPECT_THAT(cgroup_settings(CgroupVersion::v2, limits),
              testing::ElementsAre(
                  S{"memory", "memory.max", "1000"}, S{"memory", "memory.swap.max", "0", true},
                  S{"memory", "memory.oom.group", "1", true}, S{"cpu", "cpu.weight", "200"},
                  S{"cpu", "cpu.max", "1600000 100000"}, S{"pids", "pids.max", "7"}));
  EXPECT_THAT(
      cgroup_settings(CgroupVersion::v1, limits),
      testing::ElementsAre(S{"memory", "memory.limit_in_bytes", "1000"},
                           S{"memory", "memory.memsw.limit_in_bytes", "1000", true},
                           S{"memory", "memory.swappiness", "0", true},
                           S{"cpu", "cpu.shares", "2048"}, S{"cpu", "cpu.cfs_period_us", "100000"},
                           S{"cpu", "cpu.cfs_quota_us", "1600000"}, S{"pids", "pids.max", "7"}));
  EXPECT_THAT(cgroup_settings(CgroupVersion::v2, {}), testing::IsEmpty());
}

class CgroupProbe : public testing::Test {
 protected:
  CgroupProbe()
      : dir_(std::filesystem::temp_directory_path() / ("fb-probe-" + sys::random_hex(4))) {
    EXPECT_TRUE(sys::mkdirs(dir_ + "/v2", 0700));
  }
  ~CgroupProbe() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  CgroupSupport probe(const std::string& v2_controllers, const std::string& v1_lines) {
    EXPECT_TRUE(sys::replace_file(dir_ + "/v2/cgroup.controllers", v2_controllers));
    EXPECT_TRUE(sys::replace_file(
        dir_ + "/mountinfo", "41 31 0:38 / " + dir_ + "/v2 rw - cgroup2 cgroup2 rw\n" + v1_lines));
    return probe_cgroups(dir_ + "/mountinfo");
  }

  std::string dir_;
};

TEST_F(CgroupProbe, PrefersV2WhenItHasControllers) {
  const CgroupSupport support = probe("cpuset cpu io memory hugetlb pids\n", "");
  EXPECT_EQ(support.version, CgroupVersion::v2);
  EXPECT_EQ(support.v2_mount, dir_ + "/v2");
  EXPECT_THAT(support.missing, testing::IsEmpty());
}

TEST_F(CgroupProbe, FallsBackToV1AndNamesWhatIsMissing) {
  const CgroupSupport support =
      probe("hugetlb\n",
            "32 31 0:29 / /c/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n35 31 "
            "0:32 / /c/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(support.version, CgroupVersion::v1);
  EXPECT_EQ(support.v1_mounts.at("cpuacct"), "/c/cpu,cpuacct");
  EXPECT_EQ(support.text(), "cgroup v1: cpu, cpuacct, memory; missing: pids");
}

TEST_F(CgroupProbe, ReportsV2WithoutControllers) {
  EXPECT_EQ(probe("memory\n", "").text(), "cgroup v2: memory; missing: cpu, pids");
  EXPECT_EQ(probe_cgroups(dir_ + "/absent").text(), "no cgroups");
}

}  // namespace
}  // namespace firebreak::machine
