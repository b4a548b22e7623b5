#include "client/landing.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sys.h"

namespace firebreak::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LandingTest : public testing::Test {
 protected:
  LandingTest() : top_(fs::temp_directory_path() / ("fb-client-" + sys::random_hex(6))) {
    fs::create_directories(top_ / "out");
    fs::create_directories(top_ / "victim");
  }
  ~LandingTest() override { fs::remove_all(top_); }

  std::string path(const std::string& below) const { return top_ / below; }
  static fs::path where(const UniqueFd& fd) {
    return fs::read_symlink("/proc/self/fd/" + std::to_string(fd.get()));
  }

  fs::path top_;
};

TEST_F(LandingTest, AFileGoesIntoADirectoryOrBecomesTheTarget) {
  const auto inside = land_file(path("out"), "f");
  ASSERT_TRUE(inside);
  EXPECT_EQ(where(inside->directory), top_ / "out");
  EXPECT_EQ(inside->name, "f");
  const auto as = land_file(path("out/g"), "f");
  ASSERT_TRUE(as);
  EXPECT_EQ(where(as->directory), top_ / "out");
  EXPECT_EQ(as->name, "g");
  EXPECT_EQ(land_file(path("none/g"), "f").error().code, Code::not_found);
  EXPECT_EQ(land_file(path("out/g/"), "f").error().code, Code::not_found);
  for (const char* name : {"", ".", "..", "a/b"})
    EXPECT_EQ(land_file(path("out"), name).error().code, Code::invalid) << name;
}

TEST_F(LandingTest, OnlyTheLinksThatTheUserTypedAreFollowed) {
  fs::create_directory_symlink(path("victim"), path("mine"));
  EXPECT_EQ(where(land_file(path("mine"), "f")->directory), top_ / "victim");
  EXPECT_EQ(where(*land_directory(path("mine"), ".")), top_ / "victim");
  // This one an earlier copy has put where the next one goes.
  fs::create_directory_symlink(path("victim"), path("out/data"));
  const auto file = land_file(path("out"), "data");
  ASSERT_TRUE(file);
  EXPECT_EQ(where(file->directory), top_ / "out");
  const auto directory = land_directory(path("out"), "data");
  ASSERT_TRUE(directory);
  EXPECT_EQ(where(*directory), top_ / "out/data");
  EXPECT_TRUE(fs::is_empty(path("victim")));
}

TEST_F(LandingTest, ADirectoryIsEnteredOrMade) {
  EXPECT_EQ(where(*land_directory(path("out"), "new")), top_ / "out/new");
  EXPECT_EQ(where(*land_directory(path("out"), "new")), top_ / "out/new");
  EXPECT_EQ(where(*land_directory(path("out"), "")), top_ / "out");
  EXPECT_EQ(where(*land_directory(path("a/b"), "new")), top_ / "a/b");
  EXPECT_EQ(land_directory(path("out"), "..").error().code, Code::invalid);
  // A link that leads to nothing is not made to lead to something.
  fs::create_symlink(path("victim/new"), path("out/dangling"));
  EXPECT_FALSE(land_directory(path("out/dangling"), "new"));
  EXPECT_TRUE(fs::is_empty(path("victim")));
}

TEST_F(LandingTest, WhatIsNoFileStaysAsItIs) {
  fs::create_directory(path("out/f"));
  EXPECT_EQ(land_file(path("out"), "f").error().code, Code::conflict);
  ASSERT_EQ(::mkfifo(path("out/p").c_str(), 0600), 0);
  EXPECT_EQ(land_file(path("out/p"), "f").error().code, Code::conflict);
  fs::create_symlink("/dev/null", path("null"));
  const auto device = land_file(path("null"), "f");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message, HasSubstr("is not a regular file here"));
  fs::create_symlink("nowhere", path("dangling"));
  EXPECT_TRUE(land_file(path("dangling"), "f"));
}

}  // namespace
}  // namespace firebreak::client
