#include "image/base_copy.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "image/guest_ca_test_support.h"
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

TEST(BaseMirrors, PipIsToldWhereToLookAndWhomToTrust) {
  EXPECT_EQ(pip_config("", ""), "");
  EXPECT_EQ(pip_config("http://p.test:1/s", ""),
            "[global]\nindex-url = http://p.test:1/s\ntrusted-host = p.test:1\n");
  EXPECT_EQ(pip_config("https://p.test/s", "/b"),
            "[global]\nindex-url = https://p.test/s\ncert = /b\n");
  EXPECT_EQ(pip_config("", "/b"), "[global]\ncert = /b\n");
}

class BaseCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/fb-mirrors-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    fs::create_directories(directory_ + "/tree/etc/apt");
    std::ofstream(directory_ + "/tree/etc/apt/sources.list") << kSources;
    fs::create_directories(directory_ + "/tree/etc/ssl/certs");
    fs::create_directories(directory_ + "/tree/usr/local/share/ca-certificates");
    make_disk();
  }
  void TearDown() override { fs::remove_all(directory_); }

  void make_disk() const {
    fs::remove(disk());
    ASSERT_TRUE(machine::run_tool(
        {"/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", directory_ + "/tree", disk(), "16M"},
        soon()));
  }
  std::string disk() const { return directory_ + "/base.ext4"; }
  std::string copies() const { return directory_ + "/copies"; }
  static std::string file(const std::string& disk, const std::string& path) {
    return machine::run_tool({"/sbin/debugfs", "-R", "cat " + path, disk}, soon()).value_or("?");
  }
  // What it is and where it leads.
  static std::string about(const std::string& disk, const std::string& path) {
    return machine::run_tool({"/sbin/debugfs", "-R", "stat " + path, disk}, soon()).value_or("?");
  }

  std::string directory_;
};

TEST_F(BaseCopy, HasTheMirrorsAndTheBaseStays) {
  EXPECT_EQ(changed_disk(disk(), {}, copies()), disk());
  const Mirrors mirrors{.apt = "http://two.test/d", .apt_security = {}, .pip = "http://p.test:1/s"};
  const auto copy = changed_disk(disk(), {.mirrors = mirrors, .ca = {}}, copies());
  ASSERT_TRUE(copy) << copy.error().text();
  EXPECT_EQ(file(*copy, "/etc/apt/sources.list"), with_mirrors(kSources, mirrors));
  EXPECT_EQ(file(*copy, "/etc/pip.conf"), pip_config(mirrors.pip, ""));
  EXPECT_EQ(file(disk(), "/etc/apt/sources.list"), kSources);
  EXPECT_TRUE(machine::run_tool({"/sbin/e2fsck", "-fn", *copy}, soon()));
  // Made once; other mirrors, another copy.
  EXPECT_EQ(changed_disk(disk(), {.mirrors = mirrors, .ca = {}}, copies()), *copy);
  const Mirrors others{.apt = "http://x", .apt_security = {}, .pip = {}};
  const auto other = changed_disk(disk(), {.mirrors = others, .ca = {}}, copies());
  ASSERT_TRUE(other);
  EXPECT_NE(*other, *copy);
  // As after a crash.
  fs::create_directories(copies() + "/x.making.certificates/left");
  ASSERT_TRUE(prune_disks(copies(), {*other}));
  EXPECT_EQ(*sys::list_dir(copies()), std::vector<std::string>{fs::path(*other).filename()});
}

TEST_F(BaseCopy, HasTheCertificatesWhereDebianLooks) {
  const auto ca = parse_guest_ca(std::string(kOneCertificate) + kOtherCertificate);
  ASSERT_TRUE(ca) << ca.error().text();
  // The base has one of them already, and a link for its subject.
  std::ofstream(directory_ + "/tree/etc/ssl/certs/ca-certificates.crt") << kOneCertificate;
  fs::create_symlink("x", directory_ + "/tree/etc/ssl/certs/" + ca->certificates[1].subject + ".0");
  make_disk();
  const auto copy = changed_disk(disk(), {.mirrors = {}, .ca = *ca}, copies());
  ASSERT_TRUE(copy) << copy.error().text();
  EXPECT_EQ(*bundle_in(disk()), kOneCertificate);
  EXPECT_EQ(*bundle_in(*copy), kOneCertificate + ca->certificates[1].pem);
  EXPECT_EQ(file(*copy, "/usr/local/share/ca-certificates/firebreak-1.crt"),
            ca->certificates[1].pem);
  EXPECT_THAT(about(*copy, "/etc/ssl/certs/firebreak-1.pem"),
              HasSubstr("\"/usr/local/share/ca-certificates/firebreak-1.crt\""));
  EXPECT_THAT(about(*copy, "/etc/ssl/certs/" + ca->certificates[1].subject + ".1"),
              HasSubstr("\"firebreak-1.pem\""));
  EXPECT_EQ(file(*copy, "/usr/local/share/ca-certificates/firebreak-2.crt"), "");
  EXPECT_EQ(file(*copy, "/etc/pip.conf"), pip_config("", kCaBundle));
  EXPECT_TRUE(machine::run_tool({"/sbin/e2fsck", "-fn", *copy}, soon()));
  EXPECT_EQ(sys::list_dir(copies())->size(), 1U) << "something is left beside the copy";
  // A base that has all of them is taken as it is; other certificates, another copy.
  EXPECT_EQ(changed_disk(*copy, {.mirrors = {}, .ca = *ca}, copies()), *copy);
  const auto one = parse_guest_ca(kOtherCertificate);
  ASSERT_TRUE(one);
  EXPECT_NE(changed_disk(disk(), {.mirrors = {}, .ca = *one}, copies()), *copy);
}

}  // namespace
}  // namespace firebreak::image
