#include "machine/qemu/ram_image.h"

#include <filesystem>
#include <optional>
#include <set>
#include <span>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSize = 16 * kMiB;

class RamImageTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(sys::mkdirs(dir_, 0700)); }
  void TearDown() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  static void put(int fd, std::uint64_t offset, const std::string& bytes) {
    ASSERT_TRUE(sys::pwrite_all(fd, std::as_bytes(std::span(bytes)), offset));
  }
  static std::string content(int fd) {
    std::string bytes(kSize, '\0');
    EXPECT_TRUE(sys::pread_all(fd, std::as_writable_bytes(std::span(bytes)), 0));
    return bytes;
  }
  // First and last bytes, a run across the border of two chunks, and much emptiness.
  static Result<RamImage> sample() {
    FB_TRY_ASSIGN(RamImage ram, RamImage::create(kSize));
    put(ram.fd(), 0, "first");
    put(ram.fd(), 3 * kMiB - 100, std::string(200, 'x'));
    put(ram.fd(), kSize - 4, "last");
    return ram;
  }
  static std::uint64_t blocks(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(::stat(path.c_str(), &st), 0);
    return static_cast<std::uint64_t>(st.st_blocks) * 512;
  }

  std::string dir_ = std::filesystem::temp_directory_path() / ("ram-" + sys::random_hex(4));
  std::string path_ = dir_ + "/ram";
};

TEST_F(RamImageTest, CopyIsSparseAndComesBackEqualAndSealed) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  const auto hash = ram->save(path_);
  ASSERT_TRUE(hash) << hash.error().text();
  EXPECT_EQ(std::filesystem::file_size(path_), kSize);
  EXPECT_LE(blocks(path_), 5 * kMiB);
  EXPECT_LE(ram->allocated_bytes(), kMiB);

  const auto loaded = RamImage::load(path_, kSize, *hash);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(content(loaded->fd()), content(ram->fd()));
  EXPECT_LE(loaded->allocated_bytes(), 5 * kMiB);
  EXPECT_TRUE(RamImage::adopt(*sys::dup(loaded->fd()), kSize));
}

// What a file system makes of holes must not change the hash.
TEST_F(RamImageTest, HashDoesNotDependOnWrittenZeros) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  const auto hash = ram->save(path_);
  put(ram->fd(), 8 * kMiB, std::string(kMiB, '\0'));
  const auto again = ram->save(path_ + "2");
  ASSERT_TRUE(hash && again);
  EXPECT_EQ(*hash, *again);
  EXPECT_LE(blocks(path_ + "2"), 5 * kMiB);
}

TEST_F(RamImageTest, HashDependsOnPlaceAndContent) {
  std::set<std::string> hashes;
  for (const std::uint64_t offset : {0UL, 1UL, kMiB, kSize - 1}) {
    auto ram = RamImage::create(kSize);
    ASSERT_TRUE(ram);
    put(ram->fd(), offset, "x");
    hashes.insert(ram->save(path_ + std::to_string(offset)).value_or(""));
  }
  hashes.insert(RamImage::create(kSize)->save(path_).value_or(""));
  EXPECT_EQ(hashes.size(), 5U);
}

TEST_F(RamImageTest, DamagedCopyIsRefused) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  const auto hash = ram->save(path_);
  ASSERT_TRUE(hash);
  const auto refused = [&](std::uint64_t size, const std::string& sha256) {
    const auto loaded = RamImage::load(path_, size, sha256);
    return !loaded && loaded.error().code == Code::corrupt;
  };
  auto file = sys::open(path_, O_RDWR);
  ASSERT_TRUE(file);
  // In data, in a hole, at the end.
  for (const std::uint64_t offset : {0UL, 3 * kMiB, 9 * kMiB + 17, kSize - 1}) {
    char before = 0;
    ASSERT_TRUE(sys::pread_all(file->get(), std::as_writable_bytes(std::span(&before, 1)), offset));
    put(file->get(), offset, std::string(1, static_cast<char>(before ^ 1)));
    EXPECT_TRUE(refused(kSize, *hash)) << offset;
    put(file->get(), offset, std::string(1, before));
  }
  EXPECT_TRUE(RamImage::load(path_, kSize, *hash));
  EXPECT_TRUE(refused(kSize, std::string(64, '0')));
  EXPECT_TRUE(refused(kSize * 2, *hash));
  ASSERT_EQ(::ftruncate(file->get(), kSize - 4096), 0);
  EXPECT_TRUE(refused(kSize, *hash));
  EXPECT_EQ(RamImage::load(path_ + "-missing", kSize, *hash).error().code, Code::not_found);
}

// What a clone touches in a hole of the file is charged to it twice, so a base has large ones only.
TEST_F(RamImageTest, SealedRamHasNoSmallHolesAndNoPagesOfZeros) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  put(ram->fd(), 8 * kMiB, std::string(kMiB, '\0'));
  const std::string before = content(ram->fd());
  ASSERT_TRUE(ram->seal());
  EXPECT_EQ(ram->allocated_bytes(), 4 * kMiB);
  EXPECT_EQ(content(ram->fd()), before);
  EXPECT_EQ(::lseek(ram->fd(), 0, SEEK_HOLE), static_cast<off_t>(kMiB));
  EXPECT_EQ(::lseek(ram->fd(), static_cast<off_t>(kMiB), SEEK_DATA), static_cast<off_t>(2 * kMiB));
}

TEST_F(RamImageTest, AClonesDescriptorOnlyReadsAndNobodyElseMayOpenOne) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  struct stat st{};
  ASSERT_EQ(::fstat(ram->fd(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
  ASSERT_TRUE(ram->seal());
  EXPECT_EQ(::fcntl(ram->fd(), F_GET_SEALS) & F_SEAL_SEAL, F_SEAL_SEAL);
  const auto reader = ram->reader();
  ASSERT_TRUE(reader) << reader.error().text();
  EXPECT_EQ(::fcntl(reader->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(content(reader->get()), content(ram->fd()));
}

TEST_F(RamImageTest, SealedRamCannotBeChangedByAnybody) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  ASSERT_TRUE(ram->seal());
  const std::string before = content(ram->fd());
  EXPECT_LT(::pwrite(ram->fd(), "x", 1, 0), 0);
  EXPECT_LT(::ftruncate(ram->fd(), 0), 0);
  EXPECT_LT(::ftruncate(ram->fd(), kSize * 2), 0);
  EXPECT_LT(::fallocate(ram->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_EQ(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, ram->fd(), 0), MAP_FAILED);
  // A clone's own copy is what it writes to.
  auto* mapped =
      static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram->fd(), 0));
  ASSERT_NE(mapped, MAP_FAILED);
  mapped[0] = 'X';
  ::munmap(mapped, kSize);
  EXPECT_EQ(content(ram->fd()), before);
}

TEST_F(RamImageTest, DoesNotSealWhileSomebodyCanStillWrite) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  void* mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, ram->fd(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(ram->seal().error().code, Code::conflict);
  ::munmap(mapped, kSize);
  EXPECT_TRUE(ram->seal());
}

TEST_F(RamImageTest, AdoptsOnlyASealedFileOfTheRightSize) {
  auto ram = sample();
  ASSERT_TRUE(ram);
  const auto code = [&](int fd, std::uint64_t size) {
    const auto adopted = RamImage::adopt(*sys::dup(fd), size);
    return adopted ? std::nullopt : std::optional(adopted.error().code);
  };
  EXPECT_EQ(code(ram->fd(), kSize), Code::corrupt);  // not sealed
  ASSERT_TRUE(ram->seal());
  EXPECT_EQ(code(ram->fd(), kSize + 4096), Code::corrupt);
  EXPECT_EQ(code(ram->fd(), kSize), std::nullopt);
  auto plain = sys::open(path_, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(plain);
  ASSERT_EQ(::ftruncate(plain->get(), kSize), 0);
  EXPECT_EQ(code(plain->get(), kSize), Code::corrupt);
}

}  // namespace
}  // namespace firebreak::machine
