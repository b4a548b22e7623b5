#include "machine/kept_base.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

namespace fs = std::filesystem;

class KeptBase : public testing::Test {
 protected:
  KeptBase() {
    fs::create_directories(dir_ + "/cache");
    fs::create_directories(dir_ + "/guest");
    write("cache/base.ext4", "first");
    fs::create_symlink(dir_ + "/cache/base.ext4", dir_ + "/guest/base.ext4");
  }
  ~KeptBase() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(sys::replace_file(dir_ + "/" + name, text));
  }
  std::string keep(const std::string& name) const {
    auto kept = keep_base(dir_ + "/" + name, dir_ + "/bases");
    EXPECT_TRUE(kept) << kept.error().text();
    return kept.value_or("");
  }
  static std::string read(const std::string& path) { return sys::read_file(path).value_or(""); }

  std::string dir_ = fs::temp_directory_path() / ("fb-kept-" + sys::random_hex(8));
};

TEST_F(KeptBase, OutlivesTheLinksAndTheFileThatLedToIt) {
  const std::string kept = keep("guest/base.ext4");
  EXPECT_TRUE(kept.starts_with(dir_ + "/bases/")) << kept;
  fs::rename(dir_ + "/guest", dir_ + "/moved");
  EXPECT_EQ(keep("moved/base.ext4"), kept);
  EXPECT_EQ(keep("cache/base.ext4"), kept);
  fs::remove_all(dir_ + "/cache");
  EXPECT_EQ(read(kept), "first");
}

TEST_F(KeptBase, AnotherFileInItsPlaceIsAnotherBase) {
  const std::string first = keep("guest/base.ext4");
  write("cache/base.ext4", "other");  // by rename, of the same size
  const std::string other = keep("guest/base.ext4");
  EXPECT_NE(first, other);
  EXPECT_EQ(read(first), "first");
  EXPECT_EQ(read(other), "other");
}

TEST_F(KeptBase, WhatIsKeptOrNotThereStays) {
  const std::string kept = keep("guest/base.ext4");
  EXPECT_EQ(keep_base(kept, dir_ + "/bases").value(), kept);
  EXPECT_EQ(keep("guest/none.ext4"), dir_ + "/guest/none.ext4");
}

// Another file system, if this host has one there.
TEST_F(KeptBase, AcrossFileSystemsTheFileItselfIsNamed) {
  const std::string far = "/dev/shm/fb-kept-" + sys::random_hex(8);
  ASSERT_TRUE(sys::replace_file(far, "far"));
  const std::string kept = keep_base(far, dir_ + "/bases").value_or("");
  EXPECT_TRUE(kept == far || kept.starts_with(dir_ + "/bases/")) << kept;
  EXPECT_EQ(read(kept), "far");
  fs::remove(far);
}

}  // namespace
}  // namespace firebreak::machine
