#include "image/base_mirrors.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "machine/tool.h"

namespace firebreak::image {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kSources =
    "deb http://one.test/debian bookworm main\n"
    "deb [signed-by=/k] http://one.test/debian bookworm-updates main\n"
    "deb http://one.test/security bookworm-security main\n";

Deadline soon() {
  return Deadline::in(std::chrono::seconds(60));
}

TEST(BaseMirrors, ReplaceTheAddressesOfTheSources) {
  EXPECT_EQ(with_mirrors(kSources, {.apt = "http://two.test/d", .apt_security = {}, .pip = {}}),
            "deb http://two.test/d bookworm main\n"
            "deb [signed-by=/k] http://two.test/d bookworm-updates main\n"
            "deb http://one.test/security bookworm-security main\n");
  EXPECT_THAT(with_mirrors(kSources, {.apt = {}, .apt_security = "http://s.test", .pip = {}}),
              HasSubstr("deb http://s.test bookworm-security main\n"));
}

TEST(BaseMirrors, WhatIsNoAddressIsRefusedByTheNameOfItsOption) {
  EXPECT_TRUE(check_mirrors({.apt = "http://a", .apt_security = "", .pip = "https://b/simple"}));
  for (const char* bad : {"ftp://a", "a", "http://a b", "http://a\n"}) {
    const auto refused = check_mirrors({.apt = {}, .apt_security = {}, .pip = bad});
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("--pip-index"));
  }
}

class BaseMirrorsDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/fb-mirrors-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    fs::create_directories(directory_ + "/tree/etc/apt");
    std::ofstream(directory_ + "/tree/etc/apt/sources.list") << kSources;
    ASSERT_TRUE(machine::run_tool(
        {"/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", directory_ + "/tree", disk(), "16M"},
        soon()));
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string disk() const { return directory_ + "/base.ext4"; }
  std::string copies() const { return directory_ + "/copies"; }
  static std::string file(const std::string& disk, const std::string& path) {
    return machine::run_tool({"/sbin/debugfs", "-R", "cat " + path, disk}, soon()).value_or("?");
  }

  std::string directory_;
};

TEST_F(BaseMirrorsDisk, ACopyHasThemAndTheBaseStays) {
  EXPECT_EQ(disk_with_mirrors(disk(), {}, copies()), disk());
  const Mirrors mirrors{.apt = "http://two.test/d", .apt_security = {}, .pip = "http://p.test:1/s"};
  const auto copy = disk_with_mirrors(disk(), mirrors, copies());
  ASSERT_TRUE(copy) << copy.error().text();
  EXPECT_EQ(file(*copy, "/etc/apt/sources.list"), with_mirrors(kSources, mirrors));
  EXPECT_EQ(file(*copy, "/etc/pip.conf"),
            "[global]\nindex-url = http://p.test:1/s\ntrusted-host = p.test:1\n");
  EXPECT_EQ(file(disk(), "/etc/apt/sources.list"), kSources);
  EXPECT_TRUE(machine::run_tool({"/sbin/e2fsck", "-fn", *copy}, soon()));
  // Made once; other mirrors, another copy.
  EXPECT_EQ(disk_with_mirrors(disk(), mirrors, copies()), *copy);
  const auto other =
      disk_with_mirrors(disk(), {.apt = "http://x", .apt_security = {}, .pip = {}}, copies());
  ASSERT_TRUE(other);
  EXPECT_NE(*other, *copy);
  ASSERT_TRUE(prune_disks(copies(), {*other}));
  EXPECT_EQ(*sys::list_dir(copies()), std::vector<std::string>{fs::path(*other).filename()});
}

}  // namespace
}  // namespace firebreak::image
