#include "session/call_output.h"

#include <gtest/gtest.h>

#include "wire/crypto.h"

namespace firebreak::session {
namespace {

// TW-21: exact limits, and no character in two.
TEST(CallOutput, TW21_CutsBetweenCharacters) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcd", 3), "abc");
  EXPECT_EQ(cut_text("", 0), "");
  const std::string euro = "\xe2\x82\xac";
  for (std::size_t limit = 0; limit < 12; ++limit) {
    const std::string cut = cut_text(euro + euro + euro + euro, limit);
    EXPECT_EQ(cut.size(), limit / 3 * 3) << limit;
  }
  const std::string face = "\xf0\x9f\x98\x80";
  EXPECT_EQ(cut_text("ab" + face + face, 9).size(), 6U);
  // What is no text may be cut anywhere.
  EXPECT_EQ(cut_text(std::string(100, '\x80'), 50).size(), 50U);
}

// TW-22: sizes and hashes are those of everything that was printed.
TEST(CallOutput, TW22_CountsAndHashesWhatWasPrinted) {
  PrintedStream stream;
  std::string all;
  for (int n = 0; n < 20; ++n) {
    const std::string piece(1 << 20, static_cast<char>('a' + n));
    stream.add(piece);
    all += piece;
  }
  EXPECT_EQ(stream.total(), all.size());
  EXPECT_EQ(stream.kept().size(), PrintedStream::kMostKept);
  EXPECT_EQ(stream.shown(256 * 1024).size(), 256U * 1024);
  EXPECT_EQ(stream.hash(), wire::sha256_hex(all));
}

}  // namespace
}  // namespace firebreak::session
