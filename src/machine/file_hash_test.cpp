#include "machine/file_hash.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "machine/hash.h"

namespace firebreak::machine {
namespace {

TEST(FileHash, ReadsAgainOnlyWhatHasChanged) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("fb-hash-" + sys::random_hex(8));
  FileHash hash(path);
  EXPECT_FALSE(hash.get()) << "there is no such file";
  ASSERT_TRUE(sys::replace_file(path, "one", 0600));
  const auto first = hash.get();
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, *sha256_file(path));
  EXPECT_EQ(*hash.get(), *first);
  // Another file under the name, as an update makes it; of the same size.
  ASSERT_TRUE(sys::replace_file(path, "two", 0600));
  const auto second = hash.get();
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
  EXPECT_EQ(*second, *sha256_file(path));
  std::filesystem::remove(path);
  EXPECT_FALSE(hash.get());
}

}  // namespace
}  // namespace firebreak::machine
