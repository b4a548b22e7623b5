#include "client/unpack.h"

#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using wire::TarEntry;
using wire::TarType;

TarEntry file(std::string path, std::uint32_t mode = 0644) {
  return {.path = std::move(path), .mode = mode, .link_target = {}};
}
TarEntry directory(std::string path, std::uint32_t mode = 0755) {
  return {.path = std::move(path), .type = TarType::dir, .mode = mode, .link_target = {}};
}
TarEntry symlink(std::string path, std::string target) {
  return {.path = std::move(path), .type = TarType::symlink, .link_target = std::move(target)};
}
TarEntry hardlink(std::string path, std::string target) {
  return {.path = std::move(path), .type = TarType::hardlink, .link_target = std::move(target)};
}

// "out" is the target; what is in "victim" stays as it is.
class UnpackTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / ("fb-client-" + sys::random_hex(6));
    fs::create_directories(top_ + "/out");
    fs::create_directories(top_ + "/victim");
    ASSERT_TRUE(sys::swap_file(top_ + "/victim/key", "classified"));
  }
  void TearDown() override {
    EXPECT_EQ(read(top_ + "/victim/key"), "classified");
    EXPECT_EQ(std::distance(fs::directory_iterator(top_ + "/victim"), {}), 1);
    struct stat st{};
    EXPECT_EQ(::stat((top_ + "/victim/key").c_str(), &st), 0);
    EXPECT_EQ(st.st_nlink, 1U);
    EXPECT_EQ(std::distance(fs::directory_iterator(top_), {}), 2);
    for (const auto& entry : fs::recursive_directory_iterator(top_ + "/out"))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".fb-")) << entry;
    fs::remove_all(top_);
  }

  static std::string archive_of(const std::vector<TarEntry>& entries) {
    wire::TarWriter writer;
    std::string out;
    for (TarEntry entry : entries) {
      if (entry.type == TarType::file) entry.size = 1;
      EXPECT_TRUE(writer.begin_entry(entry, out));
      if (entry.type == TarType::file) out += "x";
      writer.end_entry(out);
    }
    wire::TarWriter::finish(out);
    return out;
  }
  Result<> unpack_bytes(std::string_view archive, mode_t mask = 022) {
    FB_TRY_ASSIGN(UniqueFd target, sys::open(top_ + "/out", O_PATH | O_DIRECTORY));
    Unpack unpack(std::move(target), mask);
    const auto done = [&]() -> Result<> {
      for (std::size_t at = 0; at < archive.size(); at += 100)
        FB_TRY(unpack.feed(archive.substr(at, 100)));
      return unpack.finish();
    }();
    changes_ = unpack.changes();
    return done;
  }
  Result<> unpack(const std::vector<TarEntry>& entries, mode_t mask = 022) {
    return unpack_bytes(archive_of(entries), mask);
  }
  Code code(const std::vector<TarEntry>& entries) {
    const auto done = unpack(entries);
    EXPECT_FALSE(done);
    return done ? Code::internal : done.error().code;
  }

  static std::string read(const std::string& path) {
    auto data = sys::read_file(path);
    return data ? *data : "<" + data.error().message + ">";
  }
  std::string get(const std::string& path) const { return read(top_ + "/out/" + path); }
  fs::file_type type(const std::string& path) const {
    return fs::symlink_status(top_ + "/out/" + path).type();
  }
  mode_t mode(const std::string& path) const {
    struct stat st{};
    EXPECT_EQ(::lstat((top_ + "/out/" + path).c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }
  // As the version before left them, or a user.
  void plant(const std::string& target, const std::string& path) const {
    fs::create_symlink(target, top_ + "/out/" + path);
  }

  std::string top_;
  Unpack::Changes changes_;
};

TEST_F(UnpackTest, ATreeArrives) {
  ASSERT_TRUE(
      unpack({directory("d", 0555), file("d/f", 0640), directory("d/e"), file("d/e/g"),
              symlink("d/e/up", "../f"), hardlink("h", "d/f"), file("odd\n\xff\x1b name")}));
  EXPECT_EQ(get("d/f"), "x");
  EXPECT_EQ(get("d/e/up"), "x");
  EXPECT_EQ(get("odd\n\xff\x1b name"), "x");
  EXPECT_EQ(mode("d"), 0555U);
  EXPECT_EQ(mode("d/f"), 0640U);
  EXPECT_TRUE(fs::equivalent(top_ + "/out/h", top_ + "/out/d/f"));
  EXPECT_EQ(changes_.left_out + changes_.texts, 0U);
  // Once more: the directories are merged, the rest is replaced.
  ASSERT_TRUE(unpack({directory("d", 0700), file("d/f"), hardlink("h", "d/f")}));
  EXPECT_EQ(mode("d"), 0555U);
  EXPECT_TRUE(fs::equivalent(top_ + "/out/h", top_ + "/out/d/f"));
}

TEST_F(UnpackTest, ModesAreLimitedAndSpecialBitsDropped) {
  TarEntry foreign = file("f", 07777);
  foreign.uid = foreign.gid = 12345;
  ASSERT_TRUE(unpack({foreign, directory("d", 07777), file("implied/f")}, 027));
  EXPECT_EQ(mode("f"), 0750U);
  EXPECT_EQ(mode("d"), 0750U);
  EXPECT_EQ(mode("implied"), 0750U);
  struct stat st{};
  ASSERT_EQ(::stat((top_ + "/out/f").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, ::geteuid());
  EXPECT_EQ(st.st_gid, ::getegid());
}

TEST_F(UnpackTest, NamesThatLeadOutAreRefused) {
  EXPECT_EQ(code({file("../victim/f")}), Code::invalid);
  EXPECT_EQ(code({file("a/../../victim/f")}), Code::invalid);
  EXPECT_EQ(code({file("a/..")}), Code::invalid);
  EXPECT_EQ(code({file(top_ + "/victim/f")}), Code::invalid);
  EXPECT_EQ(code({directory("..")}), Code::invalid);
  EXPECT_EQ(code({file(".")}), Code::invalid);
  EXPECT_TRUE(unpack({directory("."), directory("./a/./b"), file("a//b/f")}));
  EXPECT_EQ(get("a/b/f"), "x");
}

TEST_F(UnpackTest, ANulInANameIsRefused) {
  // Only a long name can hold one: short ones end there.
  std::string archive = archive_of({file(std::string(300, 'p') + "/end")});
  const auto at = archive.find("/end", archive.find("path="));
  ASSERT_NE(at, std::string::npos);
  archive[at + 1] = '\0';
  const auto done = unpack_bytes(archive);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("NUL"));
}

TEST_F(UnpackTest, HardLinksThatLeadOutAreRefused) {
  plant(top_ + "/victim", "old");
  plant(top_ + "/victim/key", "oldkey");
  EXPECT_EQ(code({hardlink("h", "../victim/key")}), Code::invalid);
  EXPECT_EQ(code({hardlink("h", top_ + "/victim/key")}), Code::invalid);
  EXPECT_EQ(code({hardlink("h", "old/key")}), Code::denied);
  EXPECT_EQ(code({hardlink("h", "oldkey")}), Code::denied);
  EXPECT_EQ(code({symlink("s", "f"), hardlink("h", "s")}), Code::denied);
  EXPECT_EQ(code({hardlink("h", "none")}), Code::not_found);
  EXPECT_EQ(type("h"), fs::file_type::not_found);
  // A link to itself, and one over what it leads to.
  ASSERT_TRUE(unpack({file("f"), hardlink("f", "f"), hardlink("g", "f"), hardlink("f", "g")}));
  EXPECT_EQ(get("f"), "x");
}

TEST_F(UnpackTest, LinksThatLeadOutBecomeText) {
  const std::string absolute = top_ + "/victim";
  ASSERT_TRUE(unpack({symlink("a", absolute), symlink("b", "../victim"), directory("d"),
                      symlink("d/c", "../../victim/key"), symlink("d/ok", "../a")}));
  EXPECT_EQ(changes_.texts, 3U);
  EXPECT_EQ(changes_.example, "a");
  EXPECT_EQ(type("a"), fs::file_type::regular);
  EXPECT_EQ(get("a"), absolute);
  EXPECT_EQ(get("b"), "../victim");
  EXPECT_EQ(get("d/c"), "../../victim/key");
  EXPECT_EQ(type("d/ok"), fs::file_type::symlink);
}

TEST_F(UnpackTest, ALinkCannotLeadOutThroughAnother) {
  // Counted by names, the second link ends inside; followed through the first, it does not.
  ASSERT_TRUE(unpack({directory("a"), directory("a/b"), symlink("a/b/here", "."),
                      symlink("out", "a/b/here/../../../../victim")}));
  EXPECT_EQ(type("a/b/here"), fs::file_type::symlink);
  EXPECT_EQ(type("out"), fs::file_type::regular);
}

TEST(StaysInside, CountsTheDirectoriesAbove) {
  EXPECT_TRUE(stays_inside("l", "f"));
  EXPECT_TRUE(stays_inside("l", "./d//f/"));
  EXPECT_TRUE(stays_inside("a/b/l", "../../f"));
  EXPECT_TRUE(stays_inside("a/l", ".."));
  EXPECT_FALSE(stays_inside("l", ".."));
  EXPECT_FALSE(stays_inside("a/b/l", "../../../f"));
  EXPECT_FALSE(stays_inside("a/b/l", "x/../f"));
  EXPECT_FALSE(stays_inside("a/b/l", "/f"));
}

TEST_F(UnpackTest, AnArchiveCannotUseItsOwnLinks) {
  fs::create_directories(top_ + "/out/real");
  EXPECT_EQ(code({symlink("l", "real"), file("l/f")}), Code::denied);
  EXPECT_TRUE(fs::is_empty(top_ + "/out/real"));
  // A file with the name of a link takes its place, and so does a directory.
  ASSERT_TRUE(unpack({symlink("m", "real"), file("m")}));
  EXPECT_EQ(type("m"), fs::file_type::regular);
  ASSERT_TRUE(unpack({symlink("n", "real"), directory("n"), file("n/f")}));
  EXPECT_EQ(type("n"), fs::file_type::directory);
  EXPECT_EQ(get("n/f"), "x");
  ASSERT_TRUE(unpack({file("o"), symlink("o", "real"), hardlink("o", "m")}));
  EXPECT_EQ(type("o"), fs::file_type::regular);
  EXPECT_TRUE(fs::is_empty(top_ + "/out/real"));
}

TEST_F(UnpackTest, LinksOfAnEarlierCopyAreReplacedAndNotFollowed) {
  const std::vector<TarEntry> entries{directory("out"), file("out/f"), file("key"),
                                      symlink("again", "key"), hardlink("hard", "key")};
  for (const char* name : {"out", "key", "again", "hard", "key.part"})
    plant(top_ + "/victim" + (std::string_view(name) == "out" ? "" : "/key"), name);
  ASSERT_TRUE(unpack(entries));
  EXPECT_EQ(type("out"), fs::file_type::directory);
  EXPECT_EQ(get("out/f"), "x");
  EXPECT_EQ(get("key"), "x");
  EXPECT_EQ(get("again"), "x");
  EXPECT_EQ(get("hard"), "x");
  EXPECT_EQ(type("key.part"), fs::file_type::symlink);
  ASSERT_TRUE(unpack(entries));
  plant("../victim", "through");
  EXPECT_EQ(code({file("through/f")}), Code::denied);
}

TEST_F(UnpackTest, EntriesChangeTheirTypeBetweenCopies) {
  const std::vector<TarEntry> as_link{symlink("x", top_ + "/victim")};
  const std::vector<TarEntry> as_inner{symlink("x", "y"), directory("y")};
  const std::vector<TarEntry> as_directory{directory("x"), file("x/key")};
  ASSERT_TRUE(unpack(as_link));
  ASSERT_TRUE(unpack(as_directory));
  EXPECT_EQ(get("x/key"), "x");
  // A directory with what is in it is not given up for a file or a link.
  EXPECT_EQ(code(as_link), Code::conflict);
  EXPECT_EQ(code(as_inner), Code::conflict);
  EXPECT_EQ(code({file("x")}), Code::conflict);
  EXPECT_EQ(code({hardlink("x", "x/key")}), Code::conflict);
  fs::remove_all(top_ + "/out/x");
  ASSERT_TRUE(unpack(as_inner));
  ASSERT_TRUE(unpack(as_directory));
  EXPECT_TRUE(fs::is_empty(top_ + "/out/y"));
  EXPECT_EQ(type("x"), fs::file_type::directory);
}

TEST_F(UnpackTest, PipesAndDevicesAreNeverMade) {
  TarEntry pipe = file("pipe");
  pipe.type = TarType::fifo;
  std::string archive = archive_of({pipe, file("f")});
  ASSERT_TRUE(unpack_bytes(archive));
  EXPECT_EQ(changes_.left_out, 1U);
  archive[156] = '3';
  const int sum = std::stoi(archive.substr(148, 6), nullptr, 8) + '3' - '6';
  char text[8];
  (void)std::snprintf(text, sizeof text, "%06o", static_cast<unsigned>(sum));
  archive.replace(148, 6, text, 6);
  ASSERT_TRUE(unpack_bytes(archive));
  EXPECT_EQ(changes_.left_out, 1U);
  EXPECT_EQ(type("pipe"), fs::file_type::not_found);
  EXPECT_EQ(get("f"), "x");
}

TEST_F(UnpackTest, ACutArchiveLeavesTheOldFile) {
  ASSERT_TRUE(unpack({file("f")}));
  wire::TarWriter writer;
  std::string archive;
  TarEntry entry = file("f");
  entry.size = 5000;
  ASSERT_TRUE(writer.begin_entry(entry, archive));
  archive += std::string(3000, 'n');
  EXPECT_EQ(unpack_bytes(archive).error().code, Code::invalid);
  EXPECT_EQ(get("f"), "x");
}

}  // namespace
}  // namespace firebreak::client
