// Saved memory against real processes that map a sealed base privately, as QEMU does.
#include "machine/qemu/saved_memory.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "machine/qemu/ram_image.h"

namespace firebreak::machine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRam = 64ULL << 20;
constexpr std::uint64_t kPages = kRam / kPage;
const std::string kBaseHash(64, 'b');

using PageList = std::vector<std::uint64_t>;

// Maps the base and writes and reads the given pages; then does nothing until it is ended.
class Clone {
 public:
  Clone(const RamImage& base, const PageList& writes, const PageList& reads = {}) {
    auto ready = sys::pipe();
    pid_ = ::fork();
    if (pid_ == 0) live(base.fd(), writes, reads, ready->second.get());
    ready->second.reset();
    char byte = 0;
    EXPECT_EQ(::read(ready->first.get(), &byte, 1), 1);
    const auto address = find_ram_mapping(pid_, base.fd(), kRam);
    EXPECT_TRUE(address) << address.error().text();
    address_ = address.value_or(0);
  }
  ~Clone() { end(); }
  Clone(const Clone&) = delete;
  Clone& operator=(const Clone&) = delete;

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  std::uint64_t address() const { return address_; }
  std::string memory() const {
    std::string bytes(kRam, '\0');
    const iovec local{bytes.data(), bytes.size()};
    const iovec remote{reinterpret_cast<void*>(address_), kRam};
    EXPECT_EQ(::process_vm_readv(pid_, &local, 1, &remote, 1, 0), static_cast<ssize_t>(kRam));
    return bytes;
  }

 private:
  [[noreturn]] static void live(int base, const PageList& writes, const PageList& reads,
                                int ready) {
    auto* ram =
        static_cast<char*>(::mmap(nullptr, kRam, PROT_READ | PROT_WRITE, MAP_PRIVATE, base, 0));
    if (ram == MAP_FAILED) ::_exit(1);
    volatile char sink = 0;
    for (std::uint64_t page : reads) sink = ram[page * kPage];
    (void)sink;
    for (std::uint64_t page : writes)
      std::memset(ram + page * kPage, static_cast<int>('A' + page % 26), kPage / 2);
    if (::write(ready, "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  pid_t pid_ = 0;
  std::uint64_t address_ = 0;
};

PageList every(std::uint64_t step) {
  PageList pages;
  for (std::uint64_t page = 0; page < kPages; page += step) pages.push_back(page);
  return pages;
}

std::vector<PageRun> runs_of(const PageList& pages) {
  std::vector<PageRun> runs;
  for (std::uint64_t page : pages) {
    if (!runs.empty() && runs.back().offset + runs.back().length == page * kPage) {
      runs.back().length += kPage;
    } else {
      runs.push_back({page * kPage, kPage});
    }
  }
  return runs;
}

class SavedMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::mkdirs(dir_, 0700));
    auto base = RamImage::create(kRam);
    ASSERT_TRUE(base);
    for (std::uint64_t page = 0; page < kPages; page += 7) {
      const std::string content(kPage, static_cast<char>('a' + page % 26));
      ASSERT_TRUE(sys::pwrite_all(base->fd(), std::as_bytes(std::span(content)), page * kPage));
    }
    ASSERT_TRUE(base->seal());
    base_.emplace(*std::move(base));
  }
  void TearDown() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  Result<UniqueFd> save(const Clone& clone, std::string_view state) const {
    FB_TRY_ASSIGN(const auto runs, dirty_runs(clone.pid(), clone.address(), kRam));
    return write_saved(path_, clone.pid(), clone.address(), kRam, kBaseHash, runs, state);
  }

  // What a resume does with the file.
  static Result<> restore(const std::string& path, const Clone& into) {
    FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_RDONLY));
    FB_TRY_ASSIGN(const SavedMemory saved, read_saved(fd.get()));
    if (saved.base_sha256 != kBaseHash || saved.ram_size != kRam)
      return fail(Code::corrupt, "the saved memory belongs to another snapshot");
    return apply_saved(fd.get(), saved, into.pid(), into.address());
  }

  std::string dir_ = std::filesystem::temp_directory_path() / ("saved-" + sys::random_hex(4));
  std::string path_ = dir_ + "/saved";
  std::optional<RamImage> base_;
};

TEST_F(SavedMemoryTest, DirtyRunsAreExactlyWhatTheProcessWrote) {
  const PageList reads{1, 2, 7, 50, 70, 200, kPages - 2};
  for (const PageList& writes :
       {PageList{}, PageList{0}, PageList{kPages - 1}, PageList{0, 3, 4, 5, 100, 7000, kPages - 1},
        every(1), every(2), every(513)}) {
    const Clone clone(*base_, writes, reads);
    const auto runs = dirty_runs(clone.pid(), clone.address(), kRam);
    const auto by_pagemap = dirty_runs_by_pagemap(clone.pid(), clone.address(), kRam);
    ASSERT_TRUE(runs && by_pagemap);
    EXPECT_TRUE(*runs == runs_of(writes)) << writes.size() << " pages";
    EXPECT_TRUE(*by_pagemap == *runs) << writes.size() << " pages";
  }
}

TEST_F(SavedMemoryTest, RestoredProcessHasEqualMemory) {
  const std::string state("device state \0 with zeros", 25);
  // Few pages; more runs than one system call takes; more bytes than one chunk.
  for (const PageList& writes : {PageList{}, PageList{0, 3, 4, kPages - 1}, every(3), every(1)}) {
    Clone before(*base_, writes);
    ASSERT_TRUE(save(before, state));
    const std::string memory = before.memory();
    before.end();
    const Clone after(*base_, {});
    const auto restored = restore(path_, after);
    ASSERT_TRUE(restored) << restored.error().text();
    EXPECT_TRUE(after.memory() == memory) << writes.size() << " pages";

    auto fd = sys::open(path_, O_RDONLY);
    ASSERT_TRUE(fd);
    const auto saved = read_saved(fd->get());
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->state, state);
    EXPECT_EQ(saved->runs, runs_of(writes));
    EXPECT_EQ(saved->base_sha256, kBaseHash);
  }
}

TEST_F(SavedMemoryTest, EveryFlippedByteIsRefused) {
  const std::string state(300, 's');
  const Clone clone(*base_, {0, 3, 4, 100});
  ASSERT_TRUE(save(clone, state));
  auto whole = sys::read_file(path_, 1 << 20);
  ASSERT_TRUE(whole);
  auto parsed = parse_saved(*whole, whole->size());
  ASSERT_TRUE(parsed);
  const std::size_t used = whole->find(state) + state.size();  // then padding up to the pages
  const Clone target(*base_, {});
  for (std::size_t at = 0; at < whole->size(); at += at < parsed->pages_offset ? 1 : 37) {
    if (at >= used && at < parsed->pages_offset) continue;
    std::string damaged = *whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    ASSERT_TRUE(sys::replace_file(path_, damaged));
    const auto restored = restore(path_, target);
    ASSERT_FALSE(restored) << "byte " << at;
    EXPECT_EQ(restored.error().code, Code::corrupt)
        << "byte " << at << ": " << restored.error().text();
  }
}

TEST_F(SavedMemoryTest, EveryCutIsRefused) {
  const Clone clone(*base_, {0, 3, 4, 100});
  ASSERT_TRUE(save(clone, "state"));
  const auto size = std::filesystem::file_size(path_);
  const Clone target(*base_, {});
  for (std::uint64_t length = size; length-- > 0;
       length -= std::min<std::uint64_t>(length, length > 300 ? 511 : 0)) {
    std::filesystem::resize_file(path_, length);
    const auto restored = restore(path_, target);
    ASSERT_FALSE(restored) << length;
    EXPECT_EQ(restored.error().code, Code::corrupt) << length;
  }
}

TEST_F(SavedMemoryTest, LongerThanItShouldBeIsRefused) {
  const Clone clone(*base_, {0});
  ASSERT_TRUE(save(clone, "state"));
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) + 1);
  EXPECT_EQ(restore(path_, clone).error().code, Code::corrupt);
}

TEST_F(SavedMemoryTest, AProcessThatEndedIsAnErrorNotALoop) {
  Clone clone(*base_, {0, 3, 4});
  const pid_t pid = clone.pid();
  ASSERT_TRUE(save(clone, "state"));
  clone.end();
  EXPECT_FALSE(dirty_runs(pid, clone.address(), kRam));
  EXPECT_FALSE(find_ram_mapping(pid, base_->fd(), kRam));
  EXPECT_EQ(write_saved(path_ + "2", pid, clone.address(), kRam, kBaseHash, runs_of({0, 3}), "")
                .error()
                .code,
            Code::unavailable);
  auto fd = sys::open(path_, O_RDONLY);
  const auto saved = read_saved(fd->get());
  ASSERT_TRUE(saved);
  EXPECT_EQ(apply_saved(fd->get(), *saved, pid, clone.address()).error().code, Code::unavailable);
}

TEST_F(SavedMemoryTest, FullDiskIsExhausted) {
  const std::string mount = dir_ + "/small";
  ASSERT_TRUE(sys::mkdirs(mount, 0700));
  ASSERT_EQ(::mount("none", mount.c_str(), "tmpfs", 0, "size=64k"), 0) << "cannot mount";
  const Clone clone(*base_, every(2));
  const auto saved = write_saved(mount + "/saved", clone.pid(), clone.address(), kRam, kBaseHash,
                                 runs_of(every(2)), "");
  ::umount(mount.c_str());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::exhausted);
}

TEST(RamMapping, FindsTheWholeMappingOfTheInode) {
  const std::string maps =
      "00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/qemu\n"
      "7f0000000000-7f0004000000 rw-p 00000000 00:01 99                         /memfd:other "
      "(deleted)\n"
      "7f0010000000-7f0010001000 rw-p 00000000 00:01 1234                       /memfd:ram "
      "(deleted)\n"
      "7f0020000000-7f0024000000 rw-p 00001000 00:01 1234                       /memfd:ram "
      "(deleted)\n"
      "7f0030000000-7f0034000000 rw-p 00000000 00:01 1234                       /memfd:ram "
      "(deleted)\n"
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n";
  EXPECT_EQ(parse_ram_mapping(maps, 1234, kRam), 0x7f0030000000U);
  EXPECT_EQ(parse_ram_mapping(maps, 99, kRam), 0x7f0000000000U);
  EXPECT_FALSE(parse_ram_mapping(maps, 1235, kRam));
  EXPECT_FALSE(parse_ram_mapping(maps, 1234, kRam * 2));
}

TEST(RamMapping, HolesMayHaveMemoryOfTheProcessOverThem) {
  const std::string first = "7f0030000000-7f0030100000 rw-p 00000000 00:01 1234 /memfd:ram\n";
  const std::string hole = "7f0030100000-7f0033f00000 rw-p 00000000 00:00 0 \n";
  const std::string last = "7f0033f00000-7f0034000000 rw-p 03f00000 00:01 1234 /memfd:ram\n";
  EXPECT_EQ(parse_ram_mapping(first + hole + last, 1234, kRam), 0x7f0030000000U);
  EXPECT_FALSE(parse_ram_mapping(first + last, 1234, kRam)) << "a gap";
  EXPECT_FALSE(parse_ram_mapping(first + hole, 1234, kRam)) << "its end is missing";
  const std::string other = "7f0030100000-7f0033f00000 rw-p 00000000 00:01 99 /memfd:other\n";
  EXPECT_FALSE(parse_ram_mapping(first + other + last, 1234, kRam)) << "another file";
  // The first piece may be a hole, too.
  const std::string begin = "7f0030000000-7f0033f00000 rw-p 00000000 00:00 0 \n";
  EXPECT_EQ(parse_ram_mapping(begin + last, 1234, kRam), 0x7f0030000000U);
}

TEST(RamMapping, SurvivesNonsense) {
  for (const char* maps : {"", "\n\n", "1234", "- - 0 0 1234 x", "zz-zz rw-p 00000000 00:01 1234 x",
                           "   ", "1-2 rw-p 0 00:01 1234"})
    EXPECT_FALSE(parse_ram_mapping(maps, 1234, kRam)) << maps;
}

}  // namespace
}  // namespace firebreak::machine
