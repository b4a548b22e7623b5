#include "guest/tenant_files.h"

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include <sys/sysmacros.h>

#include "base/text.h"
#include "guest/test_root.h"

namespace firebreak::guest {
namespace {

std::string every_byte() {
  std::string out;
  for (int c = 1; c < 256; ++c)
    if (c != '/') out.push_back(static_cast<char>(c));
  return out;
}

class Files : public RootTest {
 protected:
  void SetUp() override {
    RootTest::SetUp();
    files_.emplace(root_fd_.get());
  }

  Result<> write(const WriteOptions& options, std::string_view data) {
    FB_TRY_ASSIGN(const auto writer, files_->open_write(options));
    FB_TRY(writer->write(data));
    return writer->commit();
  }
  std::string read(const std::string& path) {
    const auto fd = files_->open_read(path);
    if (!fd) return "<" + std::string(to_string(fd.error().code)) + ">";
    char buffer[4096];
    const ssize_t n = ::read(fd->get(), buffer, sizeof buffer);
    return std::string(buffer, n < 0 ? 0 : static_cast<std::size_t>(n));
  }
  template <class T>
  static Code code(const Result<T>& result) {
    EXPECT_FALSE(result);
    return result ? Code::internal : result.error().code;
  }

  std::optional<TenantFiles> files_;
};

TEST_F(Files, StatTellsWhatIsThere) {
  put("f", "12345");
  ASSERT_EQ(::chmod((root_ + "/f").c_str(), 04751), 0);
  ASSERT_EQ(::lchown((root_ + "/f").c_str(), 12, 34), 0);
  link("f", "l");
  ASSERT_EQ(::mkfifo((root_ + "/p").c_str(), 0600), 0);
  const auto f = files_->stat("/f", false);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->name, "f");
  EXPECT_EQ(f->size, 5U);
  EXPECT_EQ(f->uid, 12U);
  EXPECT_EQ(f->gid, 34U);
  EXPECT_GT(f->mtime_ns, 1'500'000'000'000'000'000);
  EXPECT_EQ(files_->stat("l", false)->type, FileType::symlink);
  EXPECT_EQ(files_->stat("l", false)->target, "f");
  EXPECT_EQ(files_->stat("l", true)->type, FileType::file);
  EXPECT_EQ(files_->stat("p", false)->type, FileType::fifo);
  EXPECT_EQ(files_->stat("/", false)->type, FileType::dir);
  EXPECT_EQ(files_->stat("/", false)->name, "/");
  EXPECT_EQ(code(files_->stat("none", false)), Code::not_found);
  EXPECT_EQ(code(files_->stat("f/x", false)), Code::conflict);
  EXPECT_EQ(code(files_->stat("", false)), Code::invalid);
  EXPECT_EQ(code(files_->stat(std::string("f\0x", 3), false)), Code::invalid);
  EXPECT_EQ(code(files_->stat(std::string(5000, 'x'), false)), Code::invalid);
}

TEST_F(Files, JsonIsPlainTextForAnyName) {
  link(every_byte().substr(0, 200) + "/x", "link");
  FileInfo info = *files_->stat("link", false);
  info.name = every_byte();
  const json::object object = to_json(info);
  EXPECT_EQ(percent_decode(object.at("name").as_string()), every_byte());
  EXPECT_EQ(percent_decode(object.at("target").as_string()), every_byte().substr(0, 200) + "/x");
  EXPECT_EQ(object.at("type").as_string(), "symlink");
  EXPECT_EQ(object.at("mode").to_number<int>(), 0777);
  for (const char c : json::serialize(object)) EXPECT_TRUE(c >= 32 && c < 127);
}

TEST_F(Files, NothingLeadsOut) {
  link("/etc", "abs");
  link("../secret", "up");
  link("../../../../../../../../etc/passwd", "far");
  link("/proc/self/root/etc", "magic");
  dir("d");
  const std::string secret = top_ + "/secret/key";
  for (const std::string& path :
       {std::string("../secret/key"), std::string("/../secret/key"),
        std::string("d/../../secret/key"), secret, std::string("up/key"), std::string("abs/passwd"),
        std::string("far"), std::string("magic/passwd")}) {
    EXPECT_EQ(read(path), "<not_found>") << path;
    EXPECT_FALSE(files_->stat(path, true)) << path;
    EXPECT_EQ(code(write({.path = path, .append = true}, "x")), Code::not_found) << path;
  }
  EXPECT_EQ(code(files_->remove("up/key", true)), Code::not_found);
  EXPECT_EQ(code(files_->remove("../secret", true)), Code::not_found);
  EXPECT_FALSE(files_->list("abs"));
  EXPECT_FALSE(files_->list("up"));
  dir("etc");
  put("etc/passwd", "ours");
  EXPECT_EQ(read("abs/passwd"), "ours");  // an absolute link starts at the tenant's root
  EXPECT_EQ(read("far"), "ours");
  EXPECT_EQ(files_->stat("..", false)->type, FileType::dir);
}

TEST_F(Files, WritesThroughALinkInsideAndNeverOutside) {
  dir("data");
  put("data/real", "old");
  link("/data/real", "abs");
  link("data/real", "rel");
  link("rel", "chain");
  link("loop", "loop");
  link("/data/new", "dangling");
  link(top_ + "/secret/key", "out");
  link("../../secret/key", "data/out");
  for (const std::string path : {"abs", "rel", "chain"}) {
    ASSERT_TRUE(write({.path = path}, path));
    EXPECT_EQ(get("data/real"), path);
    EXPECT_TRUE(S_ISLNK(info(path).st_mode));
  }
  EXPECT_TRUE(write({.path = "dangling"}, "made"));
  EXPECT_EQ(get("data/new"), "made");
  EXPECT_EQ(code(write({.path = "loop"}, "x")), Code::denied);
  EXPECT_EQ(code(write({.path = "out"}, "x")), Code::not_found);
  EXPECT_EQ(code(write({.path = "data/out"}, "x")), Code::not_found);
  EXPECT_EQ(code(write({.path = "data/out", .offset = 0}, "x")), Code::not_found);
}

TEST_F(Files, WholeWriteKeepsModeAndOwnerUnlessAsked) {
  ASSERT_TRUE(write({.path = "f"}, "one"));
  EXPECT_EQ(info("f").st_mode & 07777, 0644U);
  ASSERT_EQ(::chmod((root_ + "/f").c_str(), 0700), 0);
  ASSERT_EQ(::chown((root_ + "/f").c_str(), 7, 8), 0);
  ASSERT_TRUE(write({.path = "f"}, "two"));
  EXPECT_EQ(get("f"), "two");
  EXPECT_EQ(info("f").st_mode & 07777, 0700U);
  EXPECT_EQ(info("f").st_uid, 7U);
  ASSERT_TRUE(write({.path = "f", .mode = 06755, .owner = Owner{.uid = 9, .gid = 10}}, "three"));
  EXPECT_EQ(info("f").st_mode & 07777, 06755U);
  EXPECT_EQ(info("f").st_gid, 10U);
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, ACutUploadLeavesTheOldFile) {
  put("f", "old");
  {
    const auto writer = files_->open_write({.path = "f"});
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->write(std::string(100000, 'x')));
    EXPECT_EQ(get("f"), "old");
    EXPECT_EQ(count(), 2U);
  }
  EXPECT_EQ(get("f"), "old");
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, AppendAndOffsetWriteInPlace) {
  ASSERT_TRUE(write({.path = "f", .mode = 0600, .append = true, .owner = Owner{.uid = 3, .gid = 4}},
                    "abc"));
  EXPECT_EQ(info("f").st_mode & 07777, 0600U);
  EXPECT_EQ(info("f").st_uid, 3U);
  ASSERT_TRUE(write({.path = "f", .append = true}, "def"));
  ASSERT_TRUE(write({.path = "f", .offset = 1}, "XY"));
  EXPECT_EQ(get("f"), "aXYdef");
  ASSERT_TRUE(write({.path = "g", .offset = 3}, "z"));
  EXPECT_EQ(get("g"), std::string("\0\0\0z", 4));
  EXPECT_EQ(code(write({.path = "f", .append = true, .offset = 1}, "")), Code::invalid);
}

TEST_F(Files, ParentsAreMadeForTheirOwner) {
  EXPECT_EQ(code(write({.path = "a/b/c"}, "x")), Code::not_found);
  ASSERT_TRUE(write({.path = "/a//b/c", .owner = Owner{.uid = 5, .gid = 6}, .parents = true}, "x"));
  EXPECT_EQ(get("a/b/c"), "x");
  EXPECT_EQ(info("a/b").st_uid, 5U);
  EXPECT_EQ(info("a").st_mode & 07777, 0755U);
  link("/else", "l");
  EXPECT_EQ(code(write({.path = "l/m/n", .parents = true}, "x")), Code::not_found);
}

TEST_F(Files, OnlyRegularFilesAreReadAndWritten) {
  ASSERT_EQ(::mkfifo((root_ + "/p").c_str(), 0600), 0);
  dir("d");
  const bool device = ::mknod((root_ + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  for (const std::string path : {"p", "d", "null", "/"}) {
    if (path == "null" && !device) continue;
    EXPECT_EQ(code(files_->open_read(path)), Code::conflict) << path;
    EXPECT_EQ(code(write({.path = path, .append = true}, "x")), Code::conflict) << path;
    if (path != "/") EXPECT_EQ(code(write({.path = path}, "x")), Code::conflict) << path;
  }
  for (const std::string path : {"/", ".", "d/..", "new/", ""})
    EXPECT_EQ(code(write({.path = path}, "x")), Code::invalid) << path;
}

TEST_F(Files, NamesOfEveryByteComeBack) {
  dir("d");
  std::set<std::string> names{"..."};
  for (const char c : every_byte()) names.insert(c == '.' ? "x." : std::string(1, c));
  names.insert(every_byte());
  for (const std::string& name : names)
    ASSERT_TRUE(write({.path = "d/" + name}, name)) << shown(name);
  auto lister = files_->list("d");
  ASSERT_TRUE(lister);
  std::set<std::string> seen;
  std::vector<FileInfo> batch;
  while (*lister->next(batch, 7)) {
    EXPECT_LE(batch.size(), 7U);
    for (const FileInfo& info : batch) seen.insert(info.name);
  }
  EXPECT_EQ(seen, names);
  for (const std::string& name : names) EXPECT_EQ(read("d/" + name), name);
  EXPECT_TRUE(files_->remove("d", true));
  EXPECT_EQ(code(files_->list("d")), Code::not_found);
}

std::size_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * 4;
}

TEST_F(Files, AHugeDirectoryIsListedInLittleMemory) {
  constexpr std::size_t kEntries = 100'000;
  dir("many");
  const auto dir_fd = sys::open(root_ + "/many", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(dir_fd);
  for (std::size_t i = 0; i < kEntries; ++i) {
    const std::string name = "entry-with-a-name-of-some-length-" + std::to_string(i);
    ASSERT_EQ(::symlinkat("target", dir_fd->get(), name.c_str()), 0);
  }
  [[maybe_unused]] const std::size_t before = resident_kib();
  auto lister = files_->list("many");
  ASSERT_TRUE(lister);
  std::size_t seen = 0;
  std::vector<FileInfo> batch;
  while (*lister->next(batch)) seen += batch.size();
  EXPECT_EQ(seen, kEntries);
#if !__has_feature(address_sanitizer)  // which keeps freed memory for a while
  EXPECT_LT(resident_kib() - before, 4096U);
#endif
  EXPECT_TRUE(files_->remove("many", true));
}

TEST_F(Files, Mkdir) {
  EXPECT_TRUE(files_->mkdir("/a", 01777, false));
  EXPECT_EQ(info("a").st_mode & 07777, 01777U);
  EXPECT_EQ(code(files_->mkdir("a", 0755, false)), Code::conflict);
  EXPECT_TRUE(files_->mkdir("a", 0755, true));
  EXPECT_EQ(info("a").st_mode & 07777, 01777U);
  EXPECT_EQ(code(files_->mkdir("x/y/z", 0700, false)), Code::not_found);
  EXPECT_TRUE(files_->mkdir("x/y/z/", 0700, true));
  EXPECT_EQ(info("x/y").st_mode & 07777, 0755U);
  EXPECT_EQ(info("x/y/z").st_mode & 07777, 0700U);
  EXPECT_TRUE(files_->mkdir("/", 0755, true));
  EXPECT_EQ(code(files_->mkdir("/", 0755, false)), Code::invalid);
  put("f", "");
  EXPECT_EQ(code(files_->mkdir("f", 0755, true)), Code::conflict);
  EXPECT_EQ(code(files_->mkdir("f/g", 0755, true)), Code::conflict);
  link("../secret", "up");
  EXPECT_FALSE(files_->mkdir("up/new", 0755, true));
  EXPECT_TRUE(files_->mkdir("../../b", 0755, false));
  EXPECT_TRUE(exists("b"));
}

TEST_F(Files, RemoveTakesLinksThemselves) {
  dir("keep");
  put("keep/f", "x");
  dir("d/e");
  link("/keep", "d/abs");
  link("../../secret", "d/e/out");
  link("keep", "l");
  EXPECT_EQ(code(files_->remove("d", false)), Code::conflict);
  EXPECT_TRUE(files_->remove("d", true));
  EXPECT_TRUE(files_->remove("l", true));
  EXPECT_EQ(get("keep/f"), "x");
  EXPECT_EQ(code(files_->remove("none", true)), Code::not_found);
  for (const std::string path : {"/", "..", ".", "keep/..", ""})
    EXPECT_EQ(code(files_->remove(path, true)), Code::invalid) << path;
  EXPECT_TRUE(files_->remove("keep/f", false));
  EXPECT_TRUE(files_->remove("keep/", false));
  EXPECT_EQ(count(), 0U);
}

TEST_F(Files, RemovesTreesDeeperThanAnyPath) {
  auto at = sys::open(root_, O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 1500; ++depth) {
    ASSERT_EQ(::mkdirat(at->get(), "deep", 0755), 0);
    ASSERT_EQ(::symlinkat("/etc", at->get(), "side"), 0);
    at = sys::openat(at->get(), "deep", O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(at);
  }
  EXPECT_TRUE(files_->remove("deep", true));
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, Rename) {
  put("a", "a");
  dir("d");
  EXPECT_TRUE(files_->rename("a", "/d/b"));
  EXPECT_EQ(get("d/b"), "a");
  put("c", "c");
  EXPECT_TRUE(files_->rename("c", "d/b"));
  EXPECT_EQ(get("d/b"), "c");
  EXPECT_EQ(code(files_->rename("none", "x")), Code::not_found);
  EXPECT_EQ(code(files_->rename("d", "/")), Code::invalid);
  link("../secret", "up");
  EXPECT_FALSE(files_->rename("d/b", "up/b"));
  EXPECT_FALSE(files_->rename("up/key", "key"));
  EXPECT_TRUE(files_->rename("d/b", "../../out"));
  EXPECT_EQ(get("out"), "c");
}

// A process of the tenant exchanges a directory and a link that leads out, all the time.
TEST_F(Files, ALinkSwappedDuringTheOperationDoesNotLeadOut) {
  dir("safe");
  put("safe/key", "safe");
  link("../secret", "evil");
  dir("spot");
  put("spot/key", "safe");
  std::atomic<bool> stop = false;
  std::thread tenant([&] {
    const std::string spot = root_ + "/spot";
    const std::string evil = root_ + "/evil";
    while (!stop)
      (void)::renameat2(AT_FDCWD, spot.c_str(), AT_FDCWD, evil.c_str(), RENAME_EXCHANGE);
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::size_t worked = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    EXPECT_NE(read("spot/key"), "classified");
    worked += write({.path = "spot/key"}, "safe") ? 1 : 0;
    worked += write({.path = "spot/key", .offset = 0}, "safe") ? 1 : 0;
    worked += files_->mkdir("spot/new/sub", 0755, true) ? 1 : 0;
    worked += files_->remove("spot/new", true) ? 1 : 0;
    worked += files_->rename("spot/key", "spot/key2") ? 1 : 0;
    worked += files_->rename("spot/key2", "spot/key") ? 1 : 0;
    std::vector<FileInfo> batch;
    if (auto lister = files_->list("spot")) worked += lister->next(batch) ? 1 : 0;
  }
  stop = true;
  tenant.join();
  EXPECT_GT(worked, 10U);
}

TEST_F(Files, RemoveDoesNotEmptyAMount) {
  dir("d/m");
  const int result = with_mount("d/m", [&] {
    const auto fd = sys::open(root_, O_RDONLY | O_DIRECTORY);
    if (!fd || TenantFiles(fd->get()).remove("d", true)) return 1;
    return get("d/m/f") == "mounted" ? 0 : 2;
  });
  EXPECT_EQ(result, 0) << "-1: cannot mount here";
}

}  // namespace
}  // namespace firebreak::guest
