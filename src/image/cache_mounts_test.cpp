#include "image/cache_mounts.h"

#include <chrono>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/sys.h"

namespace firebreak::image {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

class CacheMountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/fb-mounts-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    reopen();
  }
  void TearDown() override { fs::remove_all(directory_); }
  void reopen() {
    auto opened = CacheMounts::open(directory_ + "/mounts");
    ASSERT_TRUE(opened) << opened.error().text();
    mounts_ = *std::move(opened);
  }

  void put(const std::string& owner, const std::string& key, const std::string& content) {
    auto writer = mounts_->begin(owner, key, 1 << 20);
    ASSERT_TRUE(writer) << writer.error().text();
    ASSERT_TRUE((*writer)->write(content));
    ASSERT_TRUE((*writer)->commit());
  }
  std::string get(const std::string& owner, const std::string& key) const {
    const auto found = mounts_->find(owner, key);
    return found ? found->read_all(1 << 20).value_or("?") : "none";
  }
  // When it was last used, in seconds of some clock.
  void used_at(const std::string& owner, const std::string& key, time_t seconds) const {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    const std::string path = directory_ + "/mounts/" + owner + "/" + key;
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  std::string directory_;
  std::unique_ptr<CacheMounts> mounts_;
};

TEST_F(CacheMountsTest, IsKeptForItsOwnerAlone) {
  EXPECT_EQ(get("a", "k"), "none");
  put("a", "k", "of a");
  put("b", "k", "of b");
  EXPECT_EQ(get("a", "k"), "of a");
  EXPECT_EQ(get("b", "k"), "of b");
  EXPECT_EQ(get("a", "other"), "none");
  reopen();
  EXPECT_EQ(get("a", "k"), "of a");
  EXPECT_EQ(mounts_->bytes("a").value(), 4U);
  ASSERT_TRUE(mounts_->remove("a"));
  EXPECT_EQ(get("a", "k"), "none");
  EXPECT_THAT(mounts_->owners().value(), UnorderedElementsAre("b"));
  ASSERT_TRUE(mounts_->remove("nobody"));
}

TEST_F(CacheMountsTest, TheLastOneWinsAndAReaderKeepsWhatItHas) {
  put("a", "k", "first");
  const auto reader = mounts_->find("a", "k");
  auto slow = mounts_->begin("a", "k", 100);
  ASSERT_TRUE((*slow)->write("sl"));
  put("a", "k", "second");
  EXPECT_EQ(get("a", "k"), "second");
  ASSERT_TRUE((*slow)->write("ow"));
  ASSERT_TRUE((*slow)->commit());
  EXPECT_EQ(get("a", "k"), "slow");
  EXPECT_EQ(reader->read_all(100).value(), "first");
}

TEST_F(CacheMountsTest, HalfOfOneIsNeverFound) {
  {
    auto writer = mounts_->begin("a", "k", 100);
    ASSERT_TRUE((*writer)->write("half"));
    EXPECT_EQ(get("a", "k"), "none");
  }
  EXPECT_THAT(*sys::list_dir(directory_ + "/mounts/a"), IsEmpty());
  // As a server leaves it that was killed.
  auto writer = mounts_->begin("a", "k", 100);
  ASSERT_TRUE((*writer)->write("half"));
  reopen();
  EXPECT_THAT(*sys::list_dir(directory_ + "/mounts/a"), IsEmpty());
}

TEST_F(CacheMountsTest, OneThatIsTooLargeIsNotTaken) {
  put("a", "k", "old");
  auto writer = mounts_->begin("a", "k", 10);
  ASSERT_TRUE((*writer)->write("0123456789"));
  EXPECT_EQ((*writer)->write("x").error().code, Code::exhausted);
  writer->reset();
  EXPECT_EQ(get("a", "k"), "old");
}

TEST_F(CacheMountsTest, TheLeastRecentlyUsedGoFirst) {
  for (const char* key : {"one", "two", "three"}) put("a", key, std::string(100, 'x'));
  put("b", "one", std::string(100, 'x'));
  used_at("a", "one", 1000);
  used_at("a", "two", 2000);
  used_at("a", "three", 3000);
  EXPECT_NE(get("a", "one"), "none");  // which is a use
  ASSERT_TRUE(mounts_->shrink("a", 200));
  EXPECT_EQ(get("a", "two"), "none");
  EXPECT_NE(get("a", "one"), "none");
  EXPECT_NE(get("a", "three"), "none");
  ASSERT_TRUE(mounts_->shrink("a", 0));
  EXPECT_EQ(mounts_->bytes("a").value(), 0U);
  EXPECT_EQ(mounts_->bytes("b").value(), 100U);
  ASSERT_TRUE(mounts_->shrink("nobody", 0));
}

}  // namespace
}  // namespace firebreak::image
