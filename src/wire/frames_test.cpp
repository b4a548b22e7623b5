#include "wire/frames.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

TEST(Frames, HeaderIsTypeAndBigEndianLength) {
  std::string out;
  put_frame(FrameType::err, "hey", out);
  EXPECT_EQ(out, std::string("\x02\0\0\0\x03hey", 8));
  out.clear();
  put_frame_header(FrameType::gap, 0x01020, out);
  EXPECT_EQ(out, std::string("\x04\0\0\x10\x20", 5));
}

TEST(Frames, RoundTripWithAnyFragmentation) {
  std::mt19937 rng(1);
  for (int round = 0; round < 50; ++round) {
    std::string bytes;
    std::vector<Frame> sent;
    for (int i = 0; i < 40; ++i) {
      Frame frame{static_cast<FrameType>(rng() % 9),
                  std::string(rng() % 3 == 0 ? 0 : rng() % 3000, 'x')};
      for (char& c : frame.payload) c = static_cast<char>(rng());
      put_frame(frame.type, frame.payload, bytes);
      sent.push_back(std::move(frame));
    }
    FrameDecoder decoder;
    std::size_t received = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng() % 5000);
      decoder.feed(std::string_view(bytes).substr(at, size));
      at += size;
      for (;;) {
        auto frame = decoder.next();
        ASSERT_TRUE(frame);
        if (!*frame) break;
        ASSERT_LT(received, sent.size());
        EXPECT_EQ((*frame)->type, sent[received].type);
        EXPECT_EQ((*frame)->payload, sent[received].payload);
        ++received;
      }
    }
    EXPECT_EQ(received, sent.size());
    EXPECT_TRUE(decoder.empty());
  }
}

TEST(Frames, HalfAFrameIsNotEmpty) {
  FrameDecoder decoder;
  EXPECT_TRUE(decoder.empty());
  decoder.feed(
      std::string_view("\x01\0\0\0\x02"
                       "a",
                       6));
  ASSERT_TRUE(decoder.next());
  EXPECT_FALSE(*decoder.next());
  EXPECT_FALSE(decoder.empty());
}

TEST(Frames, LargestPayloadPassesAndOneMoreFailsForGood) {
  std::string bytes;
  put_frame(FrameType::out, std::string(kMaxFramePayload, 'a'), bytes);
  FrameDecoder decoder;
  decoder.feed(bytes);
  auto frame = decoder.next();
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->payload.size(), kMaxFramePayload);

  decoder.feed(std::string_view("\x01\0\x10\0\x01", 5));
  ASSERT_FALSE(decoder.next());
  decoder.feed(bytes);
  const auto again = decoder.next();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::guest);
}

TEST(Frames, UnknownTypeFails) {
  FrameDecoder decoder;
  decoder.feed(std::string_view("\x09\0\0\0\0", 5));
  const auto frame = decoder.next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::guest);
}

}  // namespace
}  // namespace firebreak::wire
