#include "machine/runtime_root.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

class RuntimeRootTest : public testing::Test {
 protected:
  RuntimeRootTest()
      : dir_(std::filesystem::temp_directory_path() / ("fb-runtime-" + sys::random_hex(4))) {}
  ~RuntimeRootTest() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  std::string dir_;
};

TEST_F(RuntimeRootTest, HoldsExactlyTheManifest) {
  const auto root = prepare_runtime_root(dir_);
  ASSERT_TRUE(root) << root.error().text();
  EXPECT_THAT(root->qemu_version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  const auto manifest = read_manifest(*root);
  ASSERT_TRUE(manifest);
  std::set<std::string> listed;
  for (const RuntimeFile& file : *manifest) listed.insert(file.path);
  EXPECT_TRUE(listed.contains(root->qemu_path));

  std::set<std::string> found;
  std::set<std::string> empty_directories;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root->path)) {
    const std::string inside = entry.path().string().substr(root->path.size());
    struct stat st{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 0U) << inside;
    EXPECT_EQ(st.st_mode & 0222, 0U) << inside;
    if (entry.is_directory()) {
      if (std::filesystem::is_empty(entry.path())) empty_directories.insert(inside);
    } else {
      EXPECT_TRUE(S_ISREG(st.st_mode)) << inside;
      found.insert(inside);
    }
  }
  EXPECT_EQ(found, listed);
  EXPECT_THAT(empty_directories, testing::ElementsAre("/dev", "/proc"));
  EXPECT_TRUE(verify_runtime_root(*root));
}

TEST_F(RuntimeRootTest, IsReusedAndRepaired) {
  const auto first = prepare_runtime_root(dir_);
  ASSERT_TRUE(first) << first.error().text();
  struct stat before{};
  ASSERT_EQ(::stat(first->path.c_str(), &before), 0);
  const auto second = prepare_runtime_root(dir_);
  ASSERT_TRUE(second);
  struct stat after{};
  ASSERT_EQ(::stat(second->path.c_str(), &after), 0);
  EXPECT_EQ(first->hash, second->hash);
  EXPECT_EQ(before.st_ino, after.st_ino);

  // The same content is found again when only the record of file times is lost.
  ASSERT_TRUE(sys::remove_tree(dir_ + "/runtime/current"));
  ASSERT_TRUE(sys::mkdir(dir_ + "/runtime/.new-left", 0700));
  ASSERT_TRUE(prepare_runtime_root(dir_));
  ASSERT_EQ(::stat(first->path.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_FALSE(sys::exists(dir_ + "/runtime/.new-left"));

  ASSERT_EQ(::truncate((first->path + first->qemu_path).c_str(), 100), 0);
  EXPECT_EQ(open_runtime_root(dir_, first->hash).error().code, Code::corrupt);
  const auto repaired = prepare_runtime_root(dir_);
  ASSERT_TRUE(repaired) << repaired.error().text();
  EXPECT_EQ(repaired->hash, first->hash);
  EXPECT_TRUE(verify_runtime_root(*repaired));
}

TEST_F(RuntimeRootTest, DamageIsFound) {
  const auto root = prepare_runtime_root(dir_);
  ASSERT_TRUE(root) << root.error().text();
  {
    const auto fd = sys::open(root->path + root->qemu_path, O_WRONLY);
    ASSERT_TRUE(fd);
    const std::byte byte{0x5a};
    ASSERT_TRUE(sys::pwrite_all(fd->get(), std::span(&byte, 1), 4096));
  }
  EXPECT_TRUE(open_runtime_root(dir_, root->hash));
  EXPECT_EQ(verify_runtime_root(*root).error().code, Code::corrupt);
  EXPECT_EQ(open_runtime_root(dir_, std::string(64, '0')).error().code, Code::not_found);
  EXPECT_EQ(open_runtime_root(dir_, "../../etc").error().code, Code::invalid);
}

}  // namespace
}  // namespace firebreak::machine
