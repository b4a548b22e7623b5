#include "machine/unprivileged.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

using testing::HasSubstr;
constexpr uid_t kUid = 765432;

class Unprivileged : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "needs root: the uid is changed";
    // Nobody else can enter it by its path.
    top_ = std::filesystem::temp_directory_path() / ("fb-unprivileged-" + sys::random_hex(6));
    ASSERT_TRUE(sys::mkdirs(top_ + "/dir", 0700));
    auto out = sys::open(top_, O_TMPFILE | O_RDWR, 0600);
    ASSERT_TRUE(out);
    out_ = *std::move(out);
  }
  void TearDown() override {
    if (!top_.empty()) EXPECT_TRUE(sys::remove_tree(top_));
  }
  Result<JailedProcess> start(const std::string& script, rlim_t file_bytes = RLIM_INFINITY) {
    return spawn_unprivileged({.argv = {"/bin/sh", "-c", script},
                               .environment = {"A=b"},
                               .directory = top_ + "/dir",
                               .uid = kUid,
                               .stdout_fd = out_.get(),
                               .stderr_fd = out_.get(),
                               .file_bytes = file_bytes});
  }
  std::string run(const std::string& script, rlim_t file_bytes = RLIM_INFINITY) {
    auto process = start(script, file_bytes);
    if (!process) return process.error().text();
    const auto exit = process->wait(Deadline::in(std::chrono::seconds(20)));
    if (!exit) return exit.error().text();
    std::string text(static_cast<std::size_t>(::lseek(out_.get(), 0, SEEK_CUR)), '\0');
    EXPECT_TRUE(sys::pread_all(out_.get(), std::as_writable_bytes(std::span(text)), 0));
    return text + std::to_string(exit->code.value_or(-1));
  }

  std::string top_;
  UniqueFd out_;
};

TEST_F(Unprivileged, HasItsDirectoryAndNoRights) {
  EXPECT_EQ(run("pwd; id -u; id -g; echo $A; echo hello > f; ls /tmp; "
                "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\t '"),
            "/tmp/work\n765432\n765432\nb\nwork\nCapEff:0000000000000000\n"
            "CapBnd:0000000000000000\nNoNewPrivs:1\n0");
  EXPECT_EQ(*sys::read_file(top_ + "/dir/f"), "hello\n");
  EXPECT_THAT(run("ls " + top_), HasSubstr("No such file"));
}

TEST_F(Unprivileged, WritesNoMoreThanItMay) {
  run("head -c 1000000 /dev/zero > f", 4096);
  EXPECT_EQ(std::filesystem::file_size(top_ + "/dir/f"), 4096U);
}

TEST_F(Unprivileged, CanBeKilledAndSaysWhyItCouldNotStart) {
  auto process = start("sleep 1000");
  ASSERT_TRUE(process) << process.error().text();
  const auto exit = process->kill_and_wait(Deadline::in(std::chrono::seconds(20)));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  const auto missing = spawn_unprivileged({.argv = {"/no/such/program"},
                                           .directory = top_ + "/dir",
                                           .uid = kUid,
                                           .stdout_fd = out_.get(),
                                           .stderr_fd = out_.get()});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text(), HasSubstr("execute program"));
}

}  // namespace
}  // namespace firebreak::machine
