#include "wire/tar.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::wire {
namespace {

using testing::HasSubstr;

struct Read {
  TarEntry entry;
  std::string data;
  bool ended = false;
  friend bool operator==(const Read&, const Read&) = default;
};

class Collector : public TarReader::Sink {
 public:
  Result<> on_entry(const TarEntry& entry) override {
    EXPECT_TRUE(reads.empty() || reads.back().ended);
    reads.push_back({.entry = entry});
    return {};
  }
  Result<> on_data(std::string_view bytes) override {
    EXPECT_FALSE(bytes.empty());
    reads.back().data += bytes;
    return {};
  }
  Result<> on_entry_end() override {
    EXPECT_EQ(reads.back().data.size(), reads.back().entry.size);
    reads.back().ended = true;
    return {};
  }
  std::vector<Read> reads;
};

Result<std::vector<Read>> read_all(std::string_view archive, std::size_t chunk = 1 << 20) {
  Collector sink;
  TarReader reader(sink);
  for (std::size_t at = 0; at < archive.size(); at += chunk)
    FB_TRY(reader.feed(archive.substr(at, chunk)));
  FB_TRY(reader.finish());
  return std::move(sink.reads);
}

std::string write_all(const std::vector<Read>& reads) {
  TarWriter writer;
  std::string out;
  for (const Read& read : reads) {
    EXPECT_TRUE(writer.begin_entry(read.entry, out)) << read.entry.path;
    out += read.data;
    writer.end_entry(out);
  }
  TarWriter::finish(out);
  return out;
}

Read file(std::string path, std::string data) {
  Read read{.entry = {.path = std::move(path)}, .data = std::move(data), .ended = true};
  read.entry.size = read.data.size();
  return read;
}

class RandomEntries {
 public:
  explicit RandomEntries(unsigned seed) : random_(seed) {}

  Read next() {
    Read read{.ended = true};
    TarEntry& entry = read.entry;
    entry.path = path();
    entry.type = std::array{TarType::file,    TarType::file,     TarType::dir,
                            TarType::symlink, TarType::hardlink, TarType::fifo}[below(6)];
    entry.mode = static_cast<std::uint32_t>(below(010000));
    entry.uid = static_cast<std::uint32_t>(below(3) == 0 ? below(1ULL << 32) : below(70000));
    entry.gid = static_cast<std::uint32_t>(below(3) == 0 ? below(1ULL << 32) : below(70000));
    const auto mtime = static_cast<std::int64_t>(below(9'000'000'000'000'000'000));
    entry.mtime_ns = below(4) == 0   ? -mtime
                     : below(2) == 0 ? mtime
                                     : mtime / 1000000000 * 1000000000;
    if (entry.type == TarType::file)
      read.data = bytes(below(3) == 0 ? 512 * below(4) : below(3000), 0);
    entry.size = read.data.size();
    if (entry.type == TarType::symlink || entry.type == TarType::hardlink)
      entry.link_target = path();
    return read;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::string bytes(std::uint64_t length, unsigned char from) {
    std::string out;
    while (out.size() < length) out.push_back(static_cast<char>(from + below(256 - from)));
    return out;
  }
  std::string path() {
    std::string out;
    if (below(3) == 0) {
      out = bytes(1 + below(300), 1);
    } else {
      const std::uint64_t length = 1 + below(below(2) == 0 ? 30 : 400);
      while (out.size() < length) out.push_back("abcdefg_./"[below(10)]);
    }
    if (out.ends_with('/')) out.back() = 'x';
    return out;
  }

  std::mt19937_64 random_;
};

TEST(Tar, RoundTripOfRandomEntriesInAnyChunks) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomEntries random(seed);
    std::vector<Read> reads(seed % 7);
    for (Read& read : reads) read = random.next();
    const std::string archive = write_all(reads);
    EXPECT_EQ(archive.size() % kTarBlock, 0U);
    for (std::size_t chunk : {std::size_t{1}, std::size_t{511}, std::size_t{513}, archive.size()}) {
      const auto back = read_all(archive, chunk);
      ASSERT_TRUE(back) << back.error().message;
      ASSERT_EQ(*back, reads) << "seed " << seed;
    }
  }
}

TEST(Tar, PathLengthsAroundTheLimitsOfUstar) {
  for (std::size_t length = 90; length < 270; ++length) {
    for (std::size_t slash : {1UL, 50UL, 99UL, 100UL, 101UL, 154UL, 155UL, 156UL, length - 2}) {
      if (slash >= length - 1) continue;
      std::string path(length, 'p');
      path[slash] = '/';
      Read dir{.entry = {.path = path, .type = TarType::dir}, .ended = true};
      const std::vector<Read> reads{file(path, "x"), dir};
      EXPECT_EQ(read_all(write_all(reads)), reads) << length << " " << slash;
    }
  }
}

TEST(Tar, SizeAboveTheOctalFieldIsKept) {
  for (std::uint64_t size : {(1ULL << 33) - 1, 1ULL << 33, (1ULL << 63) - 1}) {
    TarWriter writer;
    std::string out;
    ASSERT_TRUE(writer.begin_entry({.path = "big", .size = size}, out));
    Collector sink;
    TarReader reader(sink);
    ASSERT_TRUE(reader.feed(out));
    ASSERT_EQ(sink.reads.size(), 1U);
    EXPECT_EQ(sink.reads[0].entry.size, size);
    EXPECT_EQ(reader.finish().error().code, Code::invalid);
  }
}

TEST(Tar, WriterRefusesWhatCannotBeRead) {
  TarWriter writer;
  std::string out;
  const std::vector<TarEntry> wrong{
      {.path = ""},
      {.path = "a/"},
      {.path = std::string("a\0b", 3)},
      {.path = "a", .size = 1ULL << 63},
      {.path = "a", .type = TarType::dir, .size = 1},
      {.path = "a", .type = TarType::symlink},
      {.path = "a", .link_target = "b"},
      {.path = "a", .type = TarType::device},
      {.path = std::string(kMaxTarRecord, 'a')},
  };
  for (const TarEntry& entry : wrong)
    EXPECT_EQ(writer.begin_entry(entry, out).error().code, Code::invalid)
        << entry.path.substr(0, 9);
  EXPECT_TRUE(out.empty());
}

// ---- hand-made archives ----

void fix_checksum(std::string& block) {
  std::fill_n(block.begin() + 148, 8, ' ');
  unsigned sum = 0;
  for (char c : block) sum += static_cast<unsigned char>(c);
  char text[8];
  (void)std::snprintf(text, sizeof text, "%06o", sum);
  block.replace(148, 7, text, 7);
}

std::string header(char type, std::string_view name, std::uint64_t size) {
  TarWriter writer;
  std::string block;
  EXPECT_TRUE(writer.begin_entry({.path = std::string(name), .size = size}, block));
  block[156] = type;
  fix_checksum(block);
  return block;
}

std::string with_body(char type, std::string_view name, std::string_view body) {
  std::string out = header(type, name, body.size());
  out += body;
  out.append((512 - body.size() % 512) % 512, '\0');
  return out;
}

std::string pax(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  const std::size_t total = rest + (rest + 1 < 10 ? 1 : rest + 2 < 100 ? 2 : 3);
  return std::to_string(total) + " " + std::string(key) + "=" + std::string(value) + "\n";
}

TEST(Tar, GlobalHeaderAppliesUntilOverridden) {
  const std::string archive =
      with_body('g', "g", pax("uid", "77") + pax("comment", "hello")) + with_body('0', "one", "1") +
      with_body('x', "x", pax("uid", "5") + pax("mtime", "1.25")) + with_body('0', "two", "22") +
      with_body('g', "g", pax("uid", "")) + with_body('0', "three", "");
  const auto reads = read_all(archive);
  ASSERT_TRUE(reads) << reads.error().message;
  ASSERT_EQ(reads->size(), 3U);
  EXPECT_EQ((*reads)[0].entry.uid, 77U);
  EXPECT_EQ((*reads)[1].entry.uid, 5U);
  EXPECT_EQ((*reads)[1].entry.mtime_ns, 1'250'000'000);
  EXPECT_EQ((*reads)[2].entry.uid, 0U);
  EXPECT_EQ((*reads)[2].entry.mtime_ns, 0);
}

TEST(Tar, UnknownTypesAreSkippedWithTheirDataAndTheirExtendedHeaders) {
  const std::string archive = with_body('x', "x", pax("path", "lost")) +
                              with_body('V', "volume", std::string(700, 'v')) +
                              with_body('0', "kept", "k");
  const auto reads = read_all(archive, 100);
  ASSERT_TRUE(reads) << reads.error().message;
  ASSERT_EQ(reads->size(), 1U);
  EXPECT_EQ((*reads)[0].entry.path, "kept");
}

TEST(Tar, SizeOfAnExtendedHeaderIsItsOwn) {
  const std::string archive = with_body('x', "x", pax("size", "2")) +
                              with_body('x', "x", pax("path", "renamed")) + header('0', "f", 0) +
                              "ab" + std::string(510, '\0') + with_body('0', "g", "");
  const auto reads = read_all(archive);
  ASSERT_TRUE(reads) << reads.error().message;
  ASSERT_EQ(reads->size(), 2U);
  EXPECT_EQ((*reads)[0].entry.path, "renamed");
  EXPECT_EQ((*reads)[0].data, "ab");
}

TEST(Tar, RefusalsNameTheByte) {
  const std::string good = with_body('0', "a", "x");
  std::string flipped = good + header('0', "b", 0);
  flipped[good.size() + 3] = '!';
  std::string bad_size = header('0', "b", 0);
  bad_size[124] = '9';
  fix_checksum(bad_size);
  std::string negative = header('0', "b", 0);
  std::fill_n(negative.begin() + 124, 12, '\xff');
  fix_checksum(negative);
  std::string huge = header('0', "b", 0);
  huge[124] = '\x80';
  huge[126] = '\x01';
  fix_checksum(huge);
  const std::vector<std::pair<std::string, std::string>> cases{
      {flipped, "wrong checksum at byte 1024"},
      {std::string(512, 'a'), "wrong checksum at byte 0"},
      {good + bad_size, "wrong size at byte 1024"},
      {good + negative, "wrong size at byte 1024"},
      {good + huge, "wrong size at byte 1024"},
      {header('S', "b", 0), "sparse files are not supported at byte 0"},
      {with_body('x', "x", pax("GNU.sparse.major", "1")), "sparse files"},
      {header('x', "x", kMaxTarRecord + 1), "extended header too long"},
      {header('L', "x", 1ULL << 32), "extended header too long"},
      {with_body('x', "x", "99 path=a\n"), "malformed pax record"},
      {with_body('x', "x", "5 a=b"), "malformed pax record"},
      {with_body('x', "x", "path=a\n"), "malformed pax record"},
      {with_body('x', "x", "4 =\n"), "malformed pax record"},
      {with_body('x', "x", pax("path", std::string_view("a\0b", 3))), "NUL in a path"},
      {with_body('x', "x", pax("size", "-1")), "malformed pax size"},
      {with_body('x', "x", pax("mtime", "1.x")), "malformed pax mtime"},
      {with_body('x', "x", pax("size", "9223372036854775808")) + good, "wrong size at byte 1024"},
      {with_body('x', "x", pax("uid", "4294967296")) + good, "wrong uid at byte 1024"},
      {header('2', "link", 0), "a link without a target"},
      {with_body('x', "x", pax("path", "a")), "ends inside an entry at byte 1024"},
      {with_body('x', "x", pax("path", "a")) + std::string(1024, '\0'), "without its entry"},
  };
  for (const auto& [archive, message] : cases) {
    for (std::size_t chunk : {1UL, 4096UL}) {
      const auto reads = read_all(archive, chunk);
      ASSERT_FALSE(reads) << message;
      EXPECT_EQ(reads.error().code, Code::invalid);
      EXPECT_THAT(reads.error().message, HasSubstr(message));
    }
  }
}

TEST(Tar, StaysFailed) {
  Collector sink;
  TarReader reader(sink);
  EXPECT_FALSE(reader.feed(std::string(512, 'a')));
  EXPECT_FALSE(reader.feed(write_all({file("a", "x")})));
  EXPECT_FALSE(reader.finish());
  EXPECT_TRUE(sink.reads.empty());
}

TEST(Tar, EveryCutIsNoticedButBetweenEntries) {
  const std::string archive =
      write_all({file("a", "xyz"), file(std::string(200, 'n'), std::string(600, 'y'))});
  for (std::size_t length = 0; length <= archive.size(); ++length) {
    Collector sink;
    TarReader reader(sink);
    ASSERT_TRUE(reader.feed(std::string_view(archive).substr(0, length)));
    const bool whole = sink.reads.empty() || sink.reads.back().ended;
    if (reader.finish()) EXPECT_TRUE(whole) << length;
  }
  EXPECT_FALSE(read_all(archive.substr(0, 100)));
  EXPECT_FALSE(read_all(archive.substr(0, 514)));
}

TEST(Tar, BytesAfterTheEndMarkAreIgnored) {
  const std::vector<Read> reads{file("a", "x")};
  EXPECT_EQ(read_all(write_all(reads) + std::string(5000, 'j')), reads);
  EXPECT_EQ(read_all(std::string(10240, '\0'))->size(), 0U);
  EXPECT_EQ(read_all("")->size(), 0U);
}

// ---- against the system's tar ----

class SystemTar : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("fb-tar-" + sys::random_hex(6));
    ASSERT_TRUE(sys::mkdirs(dir_ + "/in", 0755));
    ASSERT_TRUE(sys::mkdirs(dir_ + "/out", 0755));
  }
  void TearDown() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  int run(const std::string& command) {
    return std::system(("cd " + dir_ + " && " + command).c_str());
  }
  void put(const std::string& path, std::string_view data) {
    std::ofstream(dir_ + "/" + path, std::ios::binary) << data;
  }
  std::string get(const std::string& path) {
    auto data = sys::read_file(dir_ + "/" + path, 1 << 24);
    EXPECT_TRUE(data) << path;
    return data.value_or("");
  }

  std::string dir_;
};

TEST_F(SystemTar, ItsArchivesAreRead) {
  const std::string deep(60, 'd');
  ASSERT_TRUE(sys::mkdirs(dir_ + "/in/" + deep + "/sub", 0750));
  put("in/small", "content\n");
  put("in/" + deep + "/sub/" + std::string(20, 'f'), std::string(1536, 'q'));
  ASSERT_EQ(::symlink("some/where", (dir_ + "/in/link").c_str()), 0);
  ASSERT_EQ(::link((dir_ + "/in/small").c_str(), (dir_ + "/in/zhard").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir_ + "/in/fifo").c_str(), 0640), 0);
  for (const std::string format : {"v7", "ustar", "pax", "gnu"}) {
    const bool v7 = format == "v7";
    if (!v7) {
      // Beyond what V7 holds.
      put("in/" + deep + "/sub/" + std::string(99, 'g'), "long");
      put("in/\xff\xfe\n\xc3\xa4", "bytes");
    }
    if (format == "pax" || format == "gnu") {
      ASSERT_TRUE(
          sys::mkdirs(dir_ + "/in/" + std::string(200, 'v') + "/" + std::string(200, 'w'), 0755));
      ::unlink((dir_ + "/in/long").c_str());
      ASSERT_EQ(::symlink(std::string(300, 't').c_str(), (dir_ + "/in/long").c_str()), 0);
    }
    ASSERT_EQ(run("tar --format=" + format + " --sort=name --mtime=@1234567890.5" +
                  (format == "gnu" ? " --owner=x:3000000000" : " --owner=x:1001") +
                  (v7 ? " --exclude=fifo" : "") + " -C in -cf out.tar . 2>/dev/null"),
              0)
        << format;
    const auto reads = read_all(get("out.tar"));
    ASSERT_TRUE(reads) << format << ": " << reads.error().message;
    std::map<std::string, Read> by_path;
    for (const Read& read : *reads) by_path[read.entry.path] = read;
    EXPECT_EQ(by_path["."].entry.type, TarType::dir);
    EXPECT_EQ(by_path["./small"].data, "content\n");
    EXPECT_EQ(by_path["./small"].entry.uid, format == "gnu" ? 3000000000U : 1001U);
    EXPECT_EQ(by_path["./small"].entry.mtime_ns,
              format == "pax" ? 1234567890500000000 : 1234567890000000000);
    EXPECT_EQ(by_path["./zhard"].entry.type, TarType::hardlink);
    EXPECT_EQ(by_path["./zhard"].entry.link_target, "./small");
    EXPECT_EQ(by_path["./link"].entry.link_target, "some/where");
    EXPECT_EQ(by_path["./" + deep + "/sub"].entry.mode, 0750U);
    EXPECT_EQ(by_path["./" + deep + "/sub/" + std::string(20, 'f')].data, std::string(1536, 'q'));
    if (v7) continue;
    EXPECT_EQ(by_path["./fifo"].entry.type, TarType::fifo);
    EXPECT_EQ(by_path["./" + deep + "/sub/" + std::string(99, 'g')].data, "long");
    EXPECT_EQ(by_path["./\xff\xfe\n\xc3\xa4"].data, "bytes");
    if (format == "ustar") continue;
    EXPECT_EQ(by_path["./" + std::string(200, 'v') + "/" + std::string(200, 'w')].entry.type,
              TarType::dir);
    EXPECT_EQ(by_path["./long"].entry.link_target, std::string(300, 't'));
  }
}

TEST_F(SystemTar, SparseArchivesAreRefused) {
  put("in/holes", "start");
  ASSERT_EQ(::truncate((dir_ + "/in/holes").c_str(), 1 << 22), 0);
  for (const std::string format : {"gnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1",
                                   "pax --sparse-version=1.0"}) {
    ASSERT_EQ(run("tar -S --format=" + format + " -C in -cf out.tar holes"), 0);
    const auto reads = read_all(get("out.tar"));
    ASSERT_FALSE(reads) << format;
    EXPECT_THAT(reads.error().message, HasSubstr("sparse"));
  }
}

TEST_F(SystemTar, ReadsOurArchives) {
  const std::string every_byte = [] {
    std::string out;
    for (int c = 1; c < 256; ++c)
      if (c != '/') out.push_back(static_cast<char>(c));
    return out;
  }();
  const std::string long_path = std::string(150, 'p') + "/" + std::string(150, 'q');
  std::vector<Read> reads{
      {.entry = {.path = std::string(150, 'p'), .type = TarType::dir, .mode = 0755}},
      file("plain", std::string(1000, 'x')),
      file("empty", ""),
      file(every_byte, "every"),
      file(long_path, "long"),
      {.entry = {.path = "hard", .type = TarType::hardlink, .link_target = long_path}},
      {.entry = {.path = "soft", .type = TarType::symlink, .link_target = std::string(200, 's')}},
      {.entry = {.path = "fifo", .type = TarType::fifo, .mode = 0600}},
  };
  reads[1].entry.mtime_ns = 1'500'000'000'123'456'789;
  reads[1].entry.mode = 0751;
  if (::geteuid() == 0) reads[1].entry.uid = 3'000'000'000;
  put("our.tar", write_all(reads));
  ASSERT_EQ(run("LC_ALL=C tar -C out -xpf our.tar"), 0);
  EXPECT_EQ(get("out/plain"), std::string(1000, 'x'));
  EXPECT_EQ(get("out/empty"), "");
  EXPECT_EQ(get("out/" + every_byte), "every");
  EXPECT_EQ(get("out/hard"), "long");
  EXPECT_EQ(std::filesystem::read_symlink(dir_ + "/out/soft"), std::string(200, 's'));
  EXPECT_TRUE(std::filesystem::is_fifo(dir_ + "/out/fifo"));
  struct stat st{};
  ASSERT_EQ(::stat((dir_ + "/out/plain").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0751U);
  EXPECT_EQ(st.st_mtim.tv_nsec, 123456789);
  if (::geteuid() == 0) EXPECT_EQ(st.st_uid, 3'000'000'000);
}

}  // namespace
}  // namespace firebreak::wire
