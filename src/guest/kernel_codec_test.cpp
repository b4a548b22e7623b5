#include "guest/kernel_codec.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace firebreak::guest {
namespace {

std::string message(char type, std::string_view body) {
  std::string out(1, type);
  put_kernel_message(body, out);
  return out;
}

TEST(KernelCodec, MessagesToTheKernelHaveEightDigits) {
  std::string out;
  put_kernel_message(std::string(0xabc, 'x'), out);
  EXPECT_EQ(out, "00000abc" + std::string(0xabc, 'x'));
}

TEST(KernelCodec, AnyFragmentationGivesTheSameMessages) {
  std::mt19937 rng(3);
  const std::string big(200'000, 'p');
  const std::string bytes = message('R', "") + message('B', "") + message('I', "{}") +
                            message('I', big) + message('E', big) + message('D', "{\"status\":1}");
  for (int round = 0; round < 20; ++round) {
    KernelDecoder decoder;
    std::vector<std::pair<char, std::string>> got;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng() % 40'000);
      decoder.feed(std::string_view(bytes).substr(at, size));
      at += size;
      for (;;) {
        auto piece = decoder.next();
        ASSERT_TRUE(piece);
        if (!*piece) break;
        EXPECT_LE((*piece)->bytes.size(), kKernelPiece);
        if ((*piece)->first) got.emplace_back(static_cast<char>((*piece)->type), "");
        got.back().second += (*piece)->bytes;
      }
    }
    const std::vector<std::pair<char, std::string>> want{
        {'R', ""}, {'B', ""}, {'I', "{}"}, {'I', big}, {'E', big}, {'D', "{\"status\":1}"}};
    EXPECT_TRUE(got == want);
  }
}

TEST(KernelCodec, WhatBreaksTheRulesFailsForGood) {
  for (const char* bad : {"X00000000", "I02000001", "E00400001", "D00001001", "R-0000001",
                          "R0x000000", "R 0000000", "R0000000g", "iffffffff", "Iffffffff"}) {
    KernelDecoder decoder;
    decoder.feed(bad);
    EXPECT_FALSE(decoder.next()) << bad;
    decoder.feed(message('R', ""));
    const auto again = decoder.next();
    ASSERT_FALSE(again) << bad;
    EXPECT_EQ(again.error().code, Code::invalid);
  }
}

TEST(KernelCodec, HalfAMessageIsNothingYet) {
  KernelDecoder decoder;
  decoder.feed("D0000000");
  EXPECT_FALSE(*decoder.next());
  decoder.feed("2{");
  EXPECT_FALSE(*decoder.next());
  decoder.feed("}");
  const auto piece = decoder.next();
  ASSERT_TRUE(piece && *piece);
  EXPECT_TRUE((*piece)->first && (*piece)->last);
  EXPECT_EQ((*piece)->bytes, "{}");
}

}  // namespace
}  // namespace firebreak::guest
