#include "image/base_disk.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "machine/tool.h"

namespace firebreak::image {
namespace {

namespace fs = std::filesystem;

Deadline soon() {
  return Deadline::in(std::chrono::seconds(60));
}

class BaseDiskFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/fb-base-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    fs::create_directories(directory_ + "/tree/etc");
    std::ofstream(directory_ + "/tree/etc/debian_version") << "12.9\n";
    ASSERT_TRUE(machine::run_tool(
        {"/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", directory_ + "/tree", disk(), "16M"},
        soon()));
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string disk() const { return directory_ + "/base.ext4"; }

  std::string directory_;
};

TEST_F(BaseDiskFile, SaysReleaseDigestAndSize) {
  const auto found = inspect_base_disk(disk(), soon());
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->version, "12.9");
  EXPECT_EQ(found->digest.size(), std::string("sha256:").size() + 64);
  EXPECT_GT(found->bytes, 0U);
  EXPECT_LT(found->bytes, 16U << 20);
}

TEST_F(BaseDiskFile, ACopyHasTheSameDigestAndAChangeAnother) {
  const auto found = inspect_base_disk(disk(), soon());
  ASSERT_TRUE(found);
  for (const char* sparse : {"--sparse=never", "--sparse=always"}) {
    const std::string copy = directory_ + "/copy.ext4";
    ASSERT_TRUE(machine::run_tool({"/bin/cp", sparse, disk(), copy}, soon()));
    const auto copied = inspect_base_disk(copy, soon());
    ASSERT_TRUE(copied);
    EXPECT_EQ(copied->digest, found->digest) << sparse;
    EXPECT_EQ(copied->bytes, found->bytes) << sparse;
  }
  {
    std::fstream file(disk(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((15 << 20) + 5);
    file << 'x';
  }
  const auto changed = inspect_base_disk(disk(), soon());
  ASSERT_TRUE(changed);
  EXPECT_NE(changed->digest, found->digest);
}

TEST_F(BaseDiskFile, OneThatIsNotThereOrTakesTooLongIsAnError) {
  EXPECT_FALSE(inspect_base_disk(directory_ + "/none", soon()));
  EXPECT_EQ(inspect_base_disk(disk(), Deadline::in(std::chrono::seconds(0))).error().code,
            Code::timeout);
}

}  // namespace
}  // namespace firebreak::image
