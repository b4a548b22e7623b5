#include "machine/process.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

using std::chrono::seconds;

pid_t start_sleeper(const char* name = "sleeper") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_NAME, name);
    for (;;) ::pause();
  }
  return pid;
}

TEST(Process, IdentifiesByStartTimeWhateverTheName) {
  const pid_t pid = start_sleeper("a) R 1 (2");
  const auto id = identify(pid);
  ASSERT_TRUE(id);
  EXPECT_GT(id->start_time, 0U);
  EXPECT_TRUE(is_alive(*id));
  EXPECT_FALSE(is_alive({.pid = pid, .start_time = id->start_time + 1}));
  EXPECT_EQ(adopt({.pid = pid, .start_time = id->start_time + 1}).error().code, Code::not_found);

  auto process = adopt(*id);
  ASSERT_TRUE(process);
  EXPECT_TRUE(process->running());
  EXPECT_EQ(process->wait(Deadline::in(seconds(0))).error().code, Code::timeout);
  const auto exit = process->kill_and_wait(Deadline::in(seconds(5)));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_FALSE(process->running());
  EXPECT_FALSE(is_alive(*id));
  EXPECT_EQ(identify(pid).error().code, Code::not_found);
  EXPECT_TRUE(process->kill());
}

TEST(Process, OneOfAnotherBootIsAStranger) {
  auto self = identify(::getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->boot_id.size(), 36U);
  EXPECT_TRUE(is_alive(*self));
  self->boot_id.back() = self->boot_id.back() == '0' ? '1' : '0';
  EXPECT_FALSE(is_alive(*self));
  EXPECT_EQ(adopt(*self).error().code, Code::not_found);
  // Noted by a version that did not know it.
  self->boot_id.clear();
  EXPECT_TRUE(is_alive(*self));
}

TEST(Process, HandleDoesNotKill) {
  const pid_t pid = start_sleeper();
  const auto id = identify(pid);
  ASSERT_TRUE(id);
  {
    ASSERT_TRUE(adopt(*id));
  }
  EXPECT_TRUE(is_alive(*id));
  ASSERT_TRUE(adopt(*id)->kill_and_wait(Deadline::in(seconds(5))));
}

TEST(Process, ZombieIsNotAlive) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(3);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto id = identify(pid);
  ASSERT_TRUE(id);
  EXPECT_FALSE(is_alive(*id));
  EXPECT_EQ(adopt(*id).error().code, Code::not_found);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST(Process, AdoptsWhatIsNotOurChild) {
  auto pipe = sys::pipe();
  ASSERT_TRUE(pipe);
  const pid_t middle = ::fork();
  if (middle == 0) {
    const pid_t grandchild = start_sleeper();
    const auto written = ::write(pipe->second.get(), &grandchild, sizeof grandchild);
    ::_exit(written == sizeof grandchild ? 0 : 1);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(pipe->first.get(), &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  ASSERT_EQ(::waitpid(middle, nullptr, 0), middle);
  const auto id = identify(grandchild);
  ASSERT_TRUE(id);
  auto process = adopt(*id);
  ASSERT_TRUE(process);
  const auto exit = process->kill_and_wait(Deadline::in(seconds(5)));
  ASSERT_TRUE(exit);
  EXPECT_FALSE(exit->code);
  EXPECT_FALSE(exit->signal);
  EXPECT_FALSE(is_alive(*id));
}

}  // namespace
}  // namespace firebreak::machine
