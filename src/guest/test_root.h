// A directory for one test with a "root" inside and a "secret" beside it that nothing may reach.
// Test code only.
#pragma once

#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::guest {

class RootTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "needs root: owners are changed";
    top_ = std::filesystem::temp_directory_path() / ("fb-guest-" + sys::random_hex(6));
    root_ = top_ + "/root";
    ASSERT_TRUE(sys::mkdirs(root_, 0755));
    ASSERT_TRUE(sys::mkdirs(top_ + "/secret", 0700));
    put_at(top_ + "/secret/key", "classified");
    auto fd = sys::open(root_, O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(fd);
    root_fd_ = *std::move(fd);
  }
  void TearDown() override {
    if (top_.empty()) return;
    EXPECT_EQ(get_at(top_ + "/secret/key"), "classified");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(top_ + "/secret"), {}), 1);
    struct stat st{};
    EXPECT_EQ(::stat((top_ + "/secret").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0700U);
    EXPECT_TRUE(sys::remove_tree(top_));
  }

  static void put_at(const std::string& path, std::string_view data) {
    auto fd = sys::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_TRUE(fd) << path;
    ASSERT_TRUE(sys::write_all(fd->get(), data));
  }
  static std::string get_at(const std::string& path) {
    auto data = sys::read_file(path, 1 << 24);
    return data ? *data : "<" + data.error().message + ">";
  }
  void put(const std::string& path, std::string_view data) { put_at(root_ + "/" + path, data); }
  std::string get(const std::string& path) { return get_at(root_ + "/" + path); }
  void dir(const std::string& path) { ASSERT_TRUE(sys::mkdirs(root_ + "/" + path, 0755)); }
  void link(const std::string& target, const std::string& path) {
    ASSERT_EQ(::symlink(target.c_str(), (root_ + "/" + path).c_str()), 0) << path;
  }
  struct stat info(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(::lstat((root_ + "/" + path).c_str(), &st), 0) << path;
    return st;
  }
  bool exists(const std::string& path) { return sys::exists(root_ + "/" + path); }
  std::size_t count(const std::string& path = "") {
    return sys::list_dir(root_ + "/" + path).value_or(std::vector<std::string>()).size();
  }
  // Runs `check` with a tmpfs holding one file "f" mounted on `path`: in a child, with a mount
  // namespace of its own. What it returns is the result; -1 where mounting is not allowed.
  template <class Check>
  int with_mount(const std::string& path, Check check) {
    const std::string at = root_ + "/" + path;
    const pid_t child = ::fork();
    if (child == 0) {
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", at.c_str(), "tmpfs", 0, nullptr) != 0)
        ::_exit(255);
      put_at(at + "/f", "mounted");
      ::_exit(check());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
  }

  std::string top_;
  std::string root_;
  UniqueFd root_fd_;
};

}  // namespace firebreak::guest
