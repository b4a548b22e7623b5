#include "log_tail.h"

#include <gtest/gtest.h>

namespace firebreak::cli {
namespace {

std::string text_of(const LogTail& tail) {
  std::string out;
  for (const auto& [fd, text] : tail.lines()) out += std::to_string(fd) + ":" + text;
  return out;
}

TEST(LogTail, KeepsTheLastLines) {
  LogTail tail(2);
  tail.add(1, "one\ntwo\nthree\n");
  EXPECT_EQ(text_of(tail), "1:two\n1:three\n");
  tail.add(1, "fo");
  EXPECT_EQ(text_of(tail), "1:three\n1:fo");
  tail.add(1, "ur\nfive\n");
  EXPECT_EQ(text_of(tail), "1:four\n1:five\n");
  EXPECT_EQ(tail.seen().at(1), 24U);
}

TEST(LogTail, LinesOfTwoStreamsStayWhole) {
  LogTail tail(3);
  tail.add(1, "out begins, ");
  tail.add(2, "err\n");
  tail.add(1, "and ends\n");
  EXPECT_EQ(text_of(tail), "1:out begins, and ends\n2:err\n");
}

TEST(LogTail, ALineWhoseBeginningIsGoneGoesOn) {
  LogTail tail(1);
  tail.add(1, "begins ");
  tail.add(2, "err\n");
  tail.add(1, "ends\n");
  EXPECT_EQ(text_of(tail), "1:ends\n");
}

TEST(LogTail, NoLinesAreNone) {
  LogTail tail(0);
  tail.add(1, "a\nb\nc");
  tail.add(1, "d\n");
  EXPECT_EQ(text_of(tail), "");
  EXPECT_EQ(tail.seen().at(1), 7U);
}

}  // namespace
}  // namespace firebreak::cli
