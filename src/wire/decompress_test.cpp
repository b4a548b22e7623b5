#include "wire/decompress.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/sys.h"

namespace firebreak::wire {
namespace {

// What the usual program of that kind makes of the text.
std::string compressed(const std::string& program, const std::string& text) {
  char directory[] = "/tmp/fb-decompress-XXXXXX";
  EXPECT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/text";
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(std::system((program + " < " + path + " > " + path + ".out").c_str()), 0);
  std::string out = *sys::read_file(path + ".out", 64 << 20);
  std::filesystem::remove_all(directory);
  return out;
}

std::string sample() {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i * 7919) + (i % 3 == 0 ? "\n" : " ");
  return text;
}

Result<std::string> expand(std::string_view bytes, std::size_t piece) {
  std::string out;
  Decompressor decompressor([&out](std::string_view some) -> Result<> {
    out += some;
    return {};
  });
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    FB_TRY(decompressor.feed(bytes.substr(at, piece)));
  FB_TRY(decompressor.finish());
  return out;
}

struct Kind {
  const char* program;
  Compression compression;
};
constexpr std::array kKinds{Kind{"gzip -c", Compression::gzip}, Kind{"xz -c", Compression::xz},
                            Kind{"bzip2 -c", Compression::bzip2},
                            Kind{"zstd -qc", Compression::zstd}, Kind{"cat", Compression::none}};

TEST(Decompress, TakesWhatTheUsualProgramsMake) {
  const std::string text = sample();
  for (const Kind& kind : kKinds) {
    const std::string bytes = compressed(kind.program, text);
    EXPECT_EQ(recognise_compression(bytes), kind.compression) << kind.program;
    for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, bytes.size()}) {
      const auto out = expand(bytes, piece);
      ASSERT_TRUE(out) << kind.program << ": " << out.error().text();
      EXPECT_EQ(*out, text) << kind.program << " in pieces of " << piece;
    }
  }
}

TEST(Decompress, TakesStreamsOneAfterTheOther) {
  for (const Kind& kind : kKinds) {
    const std::string bytes = compressed(kind.program, "one") + compressed(kind.program, "two");
    const auto out = expand(bytes, 5);
    ASSERT_TRUE(out) << kind.program << ": " << out.error().text();
    EXPECT_EQ(*out, "onetwo") << kind.program;
  }
}

TEST(Decompress, WhatFollowsTheZerosBehindGzipIsPaddingInAnyPieces) {
  std::string bytes = compressed("gzip -c", "one");
  bytes += std::string(3, '\0') + "\x1f\x8b" + "rest";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()})
    EXPECT_EQ(expand(bytes, piece).value(), "one") << piece;
}

TEST(Decompress, RefusesWhatIsCutOrDamaged) {
  const std::string text = sample();
  for (const Kind& kind : kKinds) {
    if (kind.compression == Compression::none) continue;
    const std::string bytes = compressed(kind.program, text);
    const auto cut = expand(std::string_view(bytes).substr(0, bytes.size() / 2), 4096);
    ASSERT_FALSE(cut) << kind.program;
    EXPECT_EQ(cut.error().code, Code::invalid);
    std::string changed = bytes;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 0x55);
    EXPECT_FALSE(expand(changed, 4096)) << kind.program;
  }
}

TEST(Decompress, ZstdFramesToSkipAreSkippedAndFormatsOfThePastAreNotRead) {
  const std::string frame = compressed("zstd -qc", "one");
  const std::string skip = std::string("\x5a\x2a\x4d\x18\x03\0\0\0", 8) + "xyz";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    EXPECT_EQ(expand(frame + skip + frame, piece).value(), "oneone") << piece;
    std::string old = frame;
    old[0] = '\x27';
    EXPECT_FALSE(expand(frame + old, piece)) << piece;
    EXPECT_FALSE(expand(frame + "garbage", piece)) << piece;
    EXPECT_FALSE(expand(frame + frame.substr(0, 2), piece)) << piece;
  }
}

TEST(Decompress, ALargeWindowIsRefusedInAnyPieces) {
  // A frame of one raw block with one byte, and a window of a gibibyte.
  const std::string frame("\x28\xb5\x2f\xfd\x00\xa0\x09\0\0x", 10);
  const std::string small("\x28\xb5\x2f\xfd\x00\x50\x09\0\0x", 10);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, frame.size()}) {
    EXPECT_EQ(expand(small, piece).value(), "x") << piece;
    const auto large = expand(frame, piece);
    ASSERT_FALSE(large) << piece;
    EXPECT_EQ(large.error().code, Code::invalid);
    EXPECT_NE(large.error().message.find("too much memory"), std::string::npos);
  }
}

TEST(Decompress, ShortAndEmptyInputIsPlain) {
  EXPECT_EQ(expand("", 1).value(), "");
  EXPECT_EQ(expand("abc", 1).value(), "abc");
}

}  // namespace
}  // namespace firebreak::wire
