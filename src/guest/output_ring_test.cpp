#include "guest/output_ring.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace firebreak::guest {
namespace {

using wire::FrameType;

struct Read {
  std::string out, err;
  std::uint64_t gap = 0;
};

Read read_all(const OutputRing& ring, std::uint64_t offset) {
  Read result;
  for (;;) {
    const auto piece = ring.read(offset, 1000);
    if (piece.gap > 0) {
      result.gap += piece.gap;
      offset += piece.gap;
      continue;
    }
    if (piece.bytes.empty()) return result;
    (piece.type == FrameType::out ? result.out : result.err).append(piece.bytes);
    offset += piece.bytes.size();
  }
}

std::size_t put(OutputRing& ring, FrameType type, std::string_view bytes) {
  const std::size_t room = ring.reserve(bytes.size());
  ring.append(type, bytes.substr(0, room));
  return room;
}

TEST(OutputRing, KeepsStreamsApartAndInOrder) {
  RingBudget budget(64 << 20);
  OutputRing ring(1 << 20, Overflow::block, budget);
  put(ring, FrameType::out, "one ");
  put(ring, FrameType::err, "bad");
  put(ring, FrameType::out, "two");
  EXPECT_EQ(ring.read(0, 100).bytes, "one ");
  EXPECT_EQ(ring.read(2, 100).bytes, "e ");
  EXPECT_EQ(ring.read(4, 100).bytes, "bad");
  EXPECT_EQ(ring.read(4, 100).type, FrameType::err);
  EXPECT_EQ(ring.read(7, 100).bytes, "two");
  EXPECT_TRUE(ring.read(10, 100).bytes.empty());
}

TEST(OutputRing, BlockStopsTheProducerUntilSent) {
  RingBudget budget(64 << 20);
  OutputRing ring(100'000, Overflow::block, budget);
  const std::string chunk(30'000, 'x');
  std::size_t total = 0;
  while (const std::size_t n = put(ring, FrameType::out, chunk)) total += n;
  EXPECT_LE(total, 100'000U);
  EXPECT_GT(total, 99'000U);
  EXPECT_EQ(ring.begin(), 0U);
  ring.sent(50'000);
  EXPECT_GT(ring.reserve(30'000), 0U);
  EXPECT_EQ(ring.begin(), 0U) << "sent bytes stay for a reader that returns";
}

TEST(OutputRing, BlockNeverLosesWhatAReaderMayStillMiss) {
  RingBudget budget(64 << 20);
  OutputRing ring(1 << 20, Overflow::block, budget);
  const std::string chunk(32 * 1024UL, 'y');
  std::uint64_t sent = 0;
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(put(ring, FrameType::out, chunk), chunk.size());
    sent += chunk.size();
    ring.sent(sent);
    ASSERT_LE(ring.begin() + OutputRing::kReplay,
              std::max<std::uint64_t>(sent, OutputRing::kReplay));
  }
}

TEST(OutputRing, DropReportsTheGap) {
  RingBudget budget(64 << 20);
  OutputRing ring(64 * 1024UL, Overflow::drop, budget);
  std::string all;
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string chunk(random() % 200 + 1, static_cast<char>('a' + i % 26));
    ASSERT_EQ(put(ring, FrameType::out, chunk), chunk.size());
    all += chunk;
  }
  EXPECT_EQ(ring.end(), all.size());
  const Read got = read_all(ring, 0);
  EXPECT_EQ(got.gap, ring.begin());
  EXPECT_EQ(got.out, all.substr(ring.begin()));
  EXPECT_GT(got.out.size(), 32U * 1024);
}

TEST(OutputRing, AlternatingSingleBytesStayBounded) {
  RingBudget budget(64 << 20);
  OutputRing blocking(64 * 1024UL, Overflow::block, budget);
  OutputRing dropping(64 * 1024UL, Overflow::drop, budget);
  std::size_t taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto type = i % 2 == 0 ? FrameType::out : FrameType::err;
    taken += put(blocking, type, "z");
    ASSERT_EQ(put(dropping, type, "z"), 1U);
  }
  EXPECT_LT(taken, 8192U) << "each change of stream has its price";
  EXPECT_LT(dropping.end() - dropping.begin(), 8192U);
}

TEST(OutputRing, AScarceBudgetStillMovesBytes) {
  RingBudget budget(0);
  OutputRing ring(1 << 20, Overflow::block, budget);
  std::string all, got;
  std::uint64_t at = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string chunk(1000, static_cast<char>('a' + i % 26));
    ASSERT_EQ(put(ring, FrameType::out, chunk), chunk.size());
    all += chunk;
    for (;;) {
      const auto piece = ring.read(at, 4096);
      ASSERT_EQ(piece.gap, 0U);
      if (piece.bytes.empty()) break;
      got.append(piece.bytes);
      at += piece.bytes.size();
      ring.sent(at);
    }
  }
  EXPECT_EQ(got, all);
}

TEST(OutputRing, RandomUseMatchesAPlainString) {
  std::mt19937 random(42);
  RingBudget budget(64 << 20);
  for (int round = 0; round < 20; ++round) {
    OutputRing ring(20'000 + random() % 100'000, Overflow::block, budget);
    std::string all, types;
    std::uint64_t read_to = 0;
    for (int step = 0; step < 500; ++step) {
      const auto type = random() % 2 == 0 ? FrameType::out : FrameType::err;
      std::string chunk(random() % 5000, '\0');
      for (char& c : chunk) c = static_cast<char>(random());
      const std::size_t n = put(ring, type, chunk);
      all.append(chunk, 0, n);
      types.append(n, static_cast<char>(type));
      if (random() % 3 == 0) {
        const auto piece = ring.read(read_to, random() % 20'000 + 1);
        ASSERT_EQ(piece.gap, 0U);
        ASSERT_EQ(all.substr(read_to, piece.bytes.size()), piece.bytes);
        if (!piece.bytes.empty()) ASSERT_EQ(types[read_to], static_cast<char>(piece.type));
        read_to += piece.bytes.size();
        ring.sent(read_to);
      }
    }
  }
}

}  // namespace
}  // namespace firebreak::guest
