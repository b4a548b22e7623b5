#include "machine/uid_pool.h"

#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

class UidPoolTest : public testing::Test {
 protected:
  UidPoolTest()
      : dir_(std::filesystem::temp_directory_path() / ("fb-uids-" + sys::random_hex(4))) {}
  ~UidPoolTest() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  // Away from the default range, which a server on this host may use.
  static constexpr uid_t kFirst = 900000;
  std::string dir_;
};

TEST_F(UidPoolTest, ParallelLeasesAreDistinctAndSurviveARestart) {
  const auto pool = UidPool::open(dir_, {.first = kFirst, .count = 64});
  ASSERT_TRUE(pool);
  std::mutex mutex;
  std::set<uid_t> leased;
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&, i] {
      const auto uid = pool->lease("vm-" + std::to_string(i));
      ASSERT_TRUE(uid) << uid.error().text();
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(leased.insert(*uid).second);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(leased.size(), 64U);
  EXPECT_EQ(*leased.begin(), kFirst);
  EXPECT_EQ(*leased.rbegin(), kFirst + 63);
  EXPECT_EQ(pool->lease("one more").error().code, Code::exhausted);

  const auto again = UidPool::open(dir_, {.first = kFirst, .count = 64});
  ASSERT_TRUE(again);
  const auto list = again->list();
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 64U);
  EXPECT_EQ(list->front().uid, kFirst);
  EXPECT_THAT(list->front().owner, testing::StartsWith("vm-"));
  ASSERT_TRUE(again->release(kFirst + 7));
  EXPECT_EQ(*again->lease("next"), kFirst + 7);
}

TEST_F(UidPoolTest, ReleaseIsRefusedWhileAProcessLives) {
  const auto pool = UidPool::open(dir_, {.first = kFirst + 100, .count = 1});
  ASSERT_TRUE(pool);
  const auto uid = pool->lease("vm");
  ASSERT_TRUE(uid);
  auto pipe = sys::pipe();
  ASSERT_TRUE(pipe);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setresuid(*uid, *uid, *uid) != 0 || ::write(pipe->second.get(), "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(pipe->first.get(), &byte, 1), 1);
  EXPECT_TRUE(uid_has_process(*uid));
  EXPECT_EQ(pool->release(*uid).error().code, Code::conflict);

  // Nor is a uid leased under which something was left running.
  ASSERT_TRUE(sys::remove_tree(dir_ + "/uids/" + std::to_string(*uid)));
  EXPECT_EQ(pool->lease("other").error().code, Code::exhausted);

  ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(uid_has_process(*uid));
  ASSERT_TRUE(pool->lease("other"));
  EXPECT_TRUE(pool->release(*uid));
  EXPECT_EQ(pool->release(*uid).error().code, Code::not_found);
  EXPECT_TRUE(pool->list()->empty());
}

TEST_F(UidPoolTest, RefusesRootAndForeignUids) {
  EXPECT_EQ(UidPool::open(dir_, {.first = 0, .count = 10}).error().code, Code::invalid);
  EXPECT_EQ(UidPool::open(dir_, {.first = 10, .count = 0}).error().code, Code::invalid);
  EXPECT_EQ(UidPool::open(dir_, {.first = 4294967295U, .count = 1}).error().code, Code::invalid);
  const auto pool = UidPool::open(dir_, {.first = kFirst, .count = 2});
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->release(0).error().code, Code::invalid);
  EXPECT_EQ(pool->release(kFirst + 2).error().code, Code::invalid);
}

}  // namespace
}  // namespace firebreak::machine
