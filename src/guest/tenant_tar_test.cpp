#include "guest/tenant_tar.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "guest/test_root.h"

namespace firebreak::guest {
namespace {

using testing::HasSubstr;
using wire::TarEntry;
using wire::TarType;

class Tar : public RootTest {
 protected:
  Result<std::string> pack(const std::string& path, std::size_t want = 1000) {
    FB_TRY_ASSIGN(const auto source, TarSource::open(root_fd_.get(), path));
    std::string archive;
    for (bool more = true; more;) {
      std::string part;
      FB_TRY_ASSIGN(more, source->read(part, want));
      EXPECT_LT(part.size(), want + 8192);
      archive += part;
    }
    return archive;
  }
  Result<> unpack(const std::string& path, std::string_view archive, std::size_t chunk = 777) {
    FB_TRY_ASSIGN(const auto sink, TarSink::open(root_fd_.get(), path));
    for (std::size_t at = 0; at < archive.size(); at += chunk)
      FB_TRY(sink->feed(archive.substr(at, chunk)));
    return sink->finish();
  }
  static std::string archive_of(const std::vector<TarEntry>& entries,
                                const std::string& content = "x") {
    wire::TarWriter writer;
    std::string out;
    for (TarEntry entry : entries) {
      if (entry.type == TarType::file) entry.size = content.size();
      EXPECT_TRUE(writer.begin_entry(entry, out));
      if (entry.type == TarType::file) out += content;
      writer.end_entry(out);
    }
    wire::TarWriter::finish(out);
    return out;
  }
  std::string shell(const std::string& command) {
    EXPECT_EQ(std::system(("cd " + root_ + " && (" + command + ") > ../shell.out 2>&1").c_str()), 0)
        << command << "\n"
        << get_at(top_ + "/shell.out");
    return get_at(top_ + "/shell.out");
  }
  // Everything that must survive a trip: type, mode, owner, size, time, link, name; then the
  // contents.
  std::string picture(const std::string& path) {
    return shell("cd " + path +
                 " && find . -mindepth 1 -printf '%y %m %U:%G %n %T@ %l %p\\n' | sort && "
                 "find . -type f -exec sha256sum {} + | sort");
  }
};

TEST_F(Tar, ATreeSurvivesTheTrip) {
  dir("in/sub/empty");
  dir("in/" + std::string(200, 'L') + "/" + std::string(200, 'M'));
  put("in/f", "content");
  put("in/zero", "");
  put("in/big", std::string(300'000, 'b'));
  put("in/sub/\xff\n\x01 name", "odd");
  put("in/" + std::string(200, 'L') + "/" + std::string(200, 'M') + "/x", "deep");
  link("/etc/passwd", "in/abs");
  link("../../secret", "in/sub/out");
  ASSERT_EQ(::link((root_ + "/in/f").c_str(), (root_ + "/in/sub/hard").c_str()), 0);
  ASSERT_EQ(::mkfifo((root_ + "/in/pipe").c_str(), 0642), 0);
  shell(
      "chown 12:34 in/big && chmod 4755 in/big && chown -h 5:6 in/abs && chmod 2775 in/sub && "
      "chmod 642 in/pipe && touch -d @1000000000.123456789 in/f in/sub in/sub/empty && "
      "touch -hd '1960-01-01 00:00:00.5 UTC' in/abs && chown 3000000000:70000 in/zero");
  for (const std::size_t want : {1UL, 512UL, 100'000UL}) {
    shell("rm -rf out && mkdir out");
    const auto archive = pack("in", want);
    ASSERT_TRUE(archive) << archive.error().message;
    const auto done = unpack("out", *archive, want + 100);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(picture("in"), picture("out"));
    put("archive", *archive);
    shell("rm -rf out && mkdir out && LC_ALL=C tar -C out --same-owner -xpf archive");
    EXPECT_EQ(picture("in"), picture("out"));
  }
  for (const std::string format : {"gnu", "pax"}) {
    shell("rm -rf out && mkdir out && tar --format=" + format + " -C in -cf archive .");
    const auto done = unpack("/out/", get("archive"));
    ASSERT_TRUE(done) << done.error().message;
    if (format == "pax") EXPECT_EQ(picture("in"), picture("out"));
    EXPECT_EQ(get("out/sub/\xff\n\x01 name"), "odd");
  }
  EXPECT_EQ(shell("find . -name '.fb-*'"), "");
}

TEST_F(Tar, OneFile) {
  dir("d");
  put("d/f", "single");
  link("d/f", "l");
  ASSERT_TRUE(unpack("/", *pack("l")));
  EXPECT_EQ(get("l"), "single");
  EXPECT_TRUE(S_ISREG(info("l").st_mode));
  EXPECT_EQ(pack("none").error().code, Code::not_found);
  ASSERT_EQ(::mkfifo((root_ + "/p").c_str(), 0600), 0);
  EXPECT_EQ(pack("p").error().code, Code::conflict);
  EXPECT_EQ(pack("../secret").error().code, Code::not_found);
  EXPECT_EQ(unpack("d/f", "").error().code, Code::conflict);
  EXPECT_EQ(unpack("../secret", "").error().code, Code::not_found);
}

TEST_F(Tar, SocketsAndDevicesAreLeftOut) {
  dir("in");
  put("in/f", "x");
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = root_ + "/in/socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, sizeof address.sun_path);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  (void)::mknod((root_ + "/in/null").c_str(), S_IFCHR | 0666, makedev(1, 3));
  dir("out");
  ASSERT_TRUE(unpack("out", *pack("in")));
  EXPECT_EQ(count("out"), 1U);
}

TEST_F(Tar, AMountIsAnEmptyDirectory) {
  dir("in/m");
  dir("out");
  const int result = with_mount("in/m", [&] {
    // A descriptor of before the mounts were made private belongs to the other namespace.
    root_fd_.reset(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto archive = pack("in");
    if (!archive || !unpack("out", *archive)) return 1;
    return exists("out/m") && count("out/m") == 0 ? 0 : 2;
  });
  EXPECT_EQ(result, 0) << "-1: cannot mount here";
}

TEST_F(Tar, AFileThatChangesSizeKeepsTheArchiveWhole) {
  dir("in");
  dir("out");
  for (const off_t size : {off_t{1000}, off_t{200'000}}) {
    put("in/f", std::string(100'000, 'a'));
    const auto source = TarSource::open(root_fd_.get(), "in");
    ASSERT_TRUE(source);
    std::string archive;
    ASSERT_TRUE(*(*source)->read(archive, 2000));
    ASSERT_EQ(::truncate((root_ + "/in/f").c_str(), size), 0);
    for (bool more = true; more;) more = *(*source)->read(archive, archive.size() + 5000);
    ASSERT_TRUE(unpack("out", archive));
    const std::string back = get("out/f");
    EXPECT_EQ(back.size(), 100'000U);
    EXPECT_EQ(back.back(), size < 100'000 ? '\0' : 'a');
  }
}

TEST_F(Tar, DepthIsBounded) {
  auto at = sys::open(root_, O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 400; ++depth) {
    ASSERT_EQ(::mkdirat(at->get(), "deep", 0755), 0);
    at = sys::openat(at->get(), "deep", O_RDONLY | O_DIRECTORY);
  }
  EXPECT_EQ(pack("/").error().code, Code::exhausted);
}

TEST_F(Tar, EntriesThatLeadOutAreRefused) {
  dir("t/inside");
  link(top_ + "/secret", "t/abs");
  link("../../secret", "t/up");
  link("../../secret/key", "t/key");
  dir("side");
  link("../side", "t/side");
  const auto code = [&](const TarEntry& entry) {
    const auto done = unpack("t", archive_of({entry}));
    return done ? Code::internal : done.error().code;
  };
  for (const std::string path : {"../f", "a/../../f", "a/..", "..", "/../f", "inside/../f"})
    EXPECT_EQ(code({.path = path}), Code::invalid) << path;
  for (const std::string path : {"abs/f", "up/f", "side/f", "abs/new/f", "up/a/b/c"}) {
    EXPECT_EQ(code({.path = path}), Code::denied) << path;
    EXPECT_EQ(code({.path = path, .type = TarType::dir}), Code::denied) << path;
    EXPECT_EQ(code({.path = path, .type = TarType::symlink, .link_target = "x"}), Code::denied);
    EXPECT_EQ(code({.path = path, .type = TarType::fifo}), Code::denied);
    EXPECT_EQ(code({.path = path, .type = TarType::hardlink, .link_target = "inside"}),
              Code::denied);
  }
  EXPECT_EQ(code({.path = "abs", .type = TarType::dir}), Code::denied);
  EXPECT_EQ(code({.path = "h", .type = TarType::hardlink, .link_target = "../../secret/key"}),
            Code::invalid);
  EXPECT_EQ(code({.path = "h", .type = TarType::hardlink, .link_target = "up/key"}), Code::denied);
  EXPECT_EQ(code({.path = "h", .type = TarType::hardlink, .link_target = top_ + "/secret/key"}),
            Code::not_found);
  EXPECT_EQ(code({.path = "."}), Code::invalid);
  EXPECT_EQ(count("side"), 0U);
  // A link at the end is replaced, not followed.
  ASSERT_TRUE(unpack("t", archive_of({{.path = "key"}})));
  EXPECT_TRUE(S_ISREG(info("t/key").st_mode));
  // An absolute name is taken below the directory.
  ASSERT_TRUE(unpack("t", archive_of({{.path = "/etc/deep/f"}})));
  EXPECT_EQ(get("t/etc/deep/f"), "x");
}

TEST_F(Tar, AnArchiveCannotUseItsOwnLinks) {
  dir("t");
  const auto done = unpack(
      "t", archive_of({{.path = "l", .type = TarType::symlink, .link_target = "../../secret"},
                       {.path = "l/key"}}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::denied);
  EXPECT_THAT(done.error().message, HasSubstr("unpacking l/key"));
  // A hard link to a link is a link, and is not written through.
  ASSERT_TRUE(unpack(
      "t", archive_of({{.path = "s", .type = TarType::symlink, .link_target = "../../secret/key"},
                       {.path = "h", .type = TarType::hardlink, .link_target = "s"},
                       {.path = "h"},
                       {.path = "s", .type = TarType::fifo, .mode = 0666}})));
  EXPECT_EQ(get("t/h"), "x");
}

TEST_F(Tar, LinksInsideServeAsDirectories) {
  dir("t/usr/bin");
  link("usr/bin", "t/bin");
  ASSERT_TRUE(unpack("t", archive_of({{.path = "bin", .type = TarType::dir, .mode = 0700},
                                      {.path = "bin/tool"}})));
  EXPECT_EQ(get("t/usr/bin/tool"), "x");
  EXPECT_TRUE(S_ISLNK(info("t/bin").st_mode));
  EXPECT_EQ(info("t/usr/bin").st_mode & 07777, 0755U);
}

TEST_F(Tar, ReplacesFilesAndMergesDirectories) {
  dir("t/d/kept");
  put("t/f", "old");
  put("t/d/g", "old");
  ASSERT_TRUE(unpack(
      "t", archive_of({{.path = "f"},
                       {.path = "d", .type = TarType::dir, .mode = 0711, .mtime_ns = 5'000'000'000},
                       {.path = "d/g", .type = TarType::hardlink, .link_target = "f"},
                       {.path = "d/g", .type = TarType::hardlink, .link_target = "/d/g"},
                       {.path = "d/new"}})));
  EXPECT_EQ(get("t/d/g"), "x");
  EXPECT_EQ(info("t/d/g").st_ino, info("t/f").st_ino);
  EXPECT_TRUE(exists("t/d/kept"));
  EXPECT_EQ(info("t/d").st_mode & 07777, 0711U);
  EXPECT_EQ(info("t/d").st_mtim.tv_sec, 5);
  for (const TarType type : {TarType::file, TarType::fifo}) {
    const auto done = unpack("t", archive_of({{.path = "d", .type = type}}));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::conflict);
  }
  EXPECT_EQ(unpack("t", archive_of({{.path = "f", .type = TarType::dir}})).error().code,
            Code::conflict);
  EXPECT_EQ(unpack("t", archive_of({{.path = "f/g"}})).error().code, Code::conflict);
}

TEST_F(Tar, DevicesAreRefused) {
  std::string archive = archive_of({{.path = "dev", .type = TarType::fifo}});
  archive[156] = '3';
  const int sum = std::stoi(archive.substr(148, 6), nullptr, 8) + '3' - '6';
  char text[8];
  (void)std::snprintf(text, sizeof text, "%06o", static_cast<unsigned>(sum));
  archive.replace(148, 6, text, 6);
  const auto done = unpack("/", archive);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("device nodes are not unpacked"));
}

TEST_F(Tar, ACutArchiveLeavesTheOldFile) {
  put("f", "old");
  const std::string archive = archive_of({{.path = "f"}}, std::string(5000, 'n'));
  EXPECT_EQ(unpack("/", archive.substr(0, 3000)).error().code, Code::invalid);
  EXPECT_EQ(get("f"), "old");
  EXPECT_EQ(count(), 1U);
}

TEST_F(Tar, ALinkSwappedDuringUnpackingDoesNotLeadOut) {
  dir("t/spot");
  link("../../secret", "t/evil");
  std::atomic<bool> stop = false;
  std::thread tenant([&] {
    const std::string spot = root_ + "/t/spot";
    const std::string evil = root_ + "/t/evil";
    while (!stop)
      (void)::renameat2(AT_FDCWD, spot.c_str(), AT_FDCWD, evil.c_str(), RENAME_EXCHANGE);
  });
  const std::string archive =
      archive_of({{.path = "spot", .type = TarType::dir, .mode = 0777},
                  {.path = "spot/key"},
                  {.path = "spot/d/e", .type = TarType::dir, .mode = 0777},
                  {.path = "spot/pipe", .type = TarType::fifo, .mode = 0777},
                  {.path = "spot/h", .type = TarType::hardlink, .link_target = "spot/key"}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::size_t worked = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    worked += unpack("t", archive) ? 1 : 0;
    const auto packed = pack("t");
    if (packed) EXPECT_THAT(*packed, testing::Not(HasSubstr("classified")));
  }
  stop = true;
  tenant.join();
  EXPECT_GT(worked, 0U);
}

}  // namespace
}  // namespace firebreak::guest
