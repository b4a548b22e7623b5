#include "wire/link.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

constexpr std::string_view kWord = "\xF5\x46\x42\x52\x4B\xF8\x0D\x9C";

// What a decoder delivered: the data behind each sync.
class Log : public LinkDecoder::Sink {
 public:
  struct Session {
    Sync sync;
    std::string data;
  };
  void on_sync(const Sync& sync) override { sessions.push_back({sync, {}}); }
  void on_data(std::string_view bytes) override {
    ASSERT_FALSE(sessions.empty()) << "data before the first sync";
    ASSERT_FALSE(bytes.empty());
    sessions.back().data.append(bytes);
  }
  std::vector<Session> sessions;
};

Sync make_sync(std::mt19937& rng) {
  Sync sync;
  sync.version = static_cast<std::uint16_t>(rng());
  for (std::byte& b : sync.nonce) b = static_cast<std::byte>(rng());
  return sync;
}

// Mostly sync words, prefixes of them, and the bytes that matter.
std::string nasty_data(std::mt19937& rng, std::size_t pieces) {
  std::string data;
  for (std::size_t i = 0; i < pieces; ++i) {
    switch (rng() % 6) {
      case 0:
        data.append(kWord);
        break;
      case 1:
        data.append(kWord.substr(0, rng() % kWord.size()));
        break;
      case 2:
        data.append(kWord.substr(0, 7)).push_back('\0');
        break;
      case 3:
        data.append(rng() % 4, '\xF5');
        break;
      case 4:
        data.push_back(static_cast<char>(rng()));
        break;
      default:
        data.append(rng() % 40, 'x');
    }
  }
  return data;
}

void feed(LinkDecoder& decoder, Log& log, std::string bytes, std::mt19937& rng, std::size_t most) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng() % most);
    decoder.feed(std::span(bytes).subspan(at, size), log);
    at += size;
  }
}

TEST(Link, SyncOnTheWire) {
  LinkEncoder encoder;
  std::string out;
  Sync sync{.version = 0x0102, .nonce = {}};
  encoder.sync(sync, out);
  ASSERT_EQ(out.size(), 32U);
  EXPECT_EQ(out.substr(0, 8), kWord);
  EXPECT_EQ(out.substr(8, 4), std::string("\x01\x02\0\0", 4));
}

TEST(Link, StuffsTheSyncWordAlsoAcrossCalls) {
  LinkEncoder encoder;
  std::string out;
  for (const char c : kWord) encoder.data(std::string_view(&c, 1), out);
  EXPECT_EQ(out, std::string(kWord.substr(0, 7)) + std::string("\0\x9C", 2));
  EXPECT_EQ(out.find(kWord), std::string::npos);
}

TEST(Link, RoundTripOfNastyData) {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    LinkEncoder encoder;
    LinkDecoder decoder;
    Log log;
    std::string wire = nasty_data(rng, rng() % 5);  // stale bytes that nobody may see
    if (wire.find(kWord) != std::string::npos) wire.clear();
    const Sync sync = make_sync(rng);
    encoder.sync(sync, wire);
    std::string data;
    for (int i = 0; i < 5; ++i) {
      const std::string piece = nasty_data(rng, rng() % 20);
      data += piece;
      encoder.data(piece, wire);
    }
    EXPECT_EQ(wire.find(kWord, wire.find(kWord) + 1), std::string::npos);
    feed(decoder, log, wire, rng, 1 + rng() % 60);
    ASSERT_EQ(log.sessions.size(), 1U);
    EXPECT_EQ(log.sessions[0].sync, sync);
    ASSERT_EQ(log.sessions[0].data, data);
  }
}

// The receiver may be waiting for exactly these bytes before it sends anything.
TEST(Link, DataThatEndsLikeASyncIsNotHeldBack) {
  std::mt19937 rng(3);
  for (std::size_t size = 1; size <= 7; ++size) {
    LinkEncoder encoder;
    LinkDecoder decoder;
    Log log;
    std::string wire;
    encoder.sync(make_sync(rng), wire);
    encoder.data(kWord.substr(0, size), wire);
    feed(decoder, log, wire, rng, 3);
    ASSERT_EQ(log.sessions.size(), 1U);
    EXPECT_EQ(log.sessions[0].data, kWord.substr(0, size));
    wire.clear();
    encoder.data("tail", wire);
    feed(decoder, log, wire, rng, 3);
    EXPECT_EQ(log.sessions[0].data, std::string(kWord.substr(0, size)) + "tail");
  }
}

// Each sender dies at some byte, the next one begins with a sync of its own encoder.
TEST(Link, EveryCutIsHealedByTheNextSync) {
  std::mt19937 rng(11);
  for (int round = 0; round < 3000; ++round) {
    std::string wire;
    LinkDecoder decoder;
    Log log;
    const int senders = 1 + static_cast<int>(rng() % 4);
    Sync last;
    std::string last_data;
    std::vector<std::pair<Sync, std::string>> sent;
    for (int i = 0; i < senders; ++i) {
      LinkEncoder encoder;
      std::string part;
      last = make_sync(rng);
      last_data = nasty_data(rng, rng() % 10);
      encoder.sync(last, part);
      encoder.data(last_data, part);
      sent.emplace_back(last, last_data);
      if (i + 1 < senders) part.resize(rng() % (part.size() + 1));
      wire += part;
    }
    feed(decoder, log, wire, rng, 1 + rng() % 80);
    ASSERT_FALSE(log.sessions.empty());
    EXPECT_EQ(log.sessions.back().sync, last);
    ASSERT_EQ(log.sessions.back().data, last_data);
    // What earlier senders got through is a prefix of what they sent, and at most the split head of
    // the next sync.
    std::size_t next = 0;
    for (const Log::Session& session : log.sessions) {
      while (next < sent.size() && sent[next].first != session.sync) ++next;
      ASSERT_LT(next, sent.size());
      const std::string possible = sent[next].second + std::string(kWord.substr(0, 7));
      const std::size_t common = static_cast<std::size_t>(
          std::ranges::mismatch(possible, session.data).in2 - session.data.begin());
      EXPECT_LE(session.data.size() - common, 7U * sent.size());
    }
  }
}

TEST(Link, SyncInOneFeedLeavesNoTraceInTheDataBeforeIt) {
  std::mt19937 rng(5);
  LinkEncoder encoder;
  LinkDecoder decoder;
  Log log;
  std::string wire;
  encoder.sync(make_sync(rng), wire);
  encoder.data("before\xF5\x46", wire);
  encoder.sync(make_sync(rng), wire);
  encoder.data("after", wire);
  decoder.feed(wire, log);
  ASSERT_EQ(log.sessions.size(), 2U);
  EXPECT_EQ(log.sessions[0].data, "before\xF5\x46");
  EXPECT_EQ(log.sessions[1].data, "after");
}

TEST(Link, BadCrcDiscardsUntilTheNextSync) {
  std::mt19937 rng(9);
  LinkEncoder encoder;
  LinkDecoder decoder;
  Log log;
  std::string wire;
  encoder.sync(make_sync(rng), wire);
  wire[15] = static_cast<char>(wire[15] ^ 1);
  encoder.data("nobody sees this", wire);
  const Sync good = make_sync(rng);
  encoder.sync(good, wire);
  encoder.data("ok", wire);
  feed(decoder, log, wire, rng, 5);
  ASSERT_EQ(log.sessions.size(), 1U);
  EXPECT_EQ(log.sessions[0].sync, good);
  EXPECT_EQ(log.sessions[0].data, "ok");
}

TEST(Link, MissingStuffingDiscardsUntilTheNextSync) {
  std::mt19937 rng(13);
  LinkEncoder encoder;
  LinkDecoder decoder;
  Log log;
  std::string wire;
  encoder.sync(make_sync(rng), wire);
  wire.append(kWord.substr(0, 7)).append("lost");
  decoder.feed(wire, log);
  ASSERT_EQ(log.sessions.size(), 1U);
  EXPECT_EQ(log.sessions[0].data, "");
  wire.clear();
  encoder.sync(make_sync(rng), wire);
  encoder.data("ok", wire);
  decoder.feed(wire, log);
  ASSERT_EQ(log.sessions.size(), 2U);
  EXPECT_EQ(log.sessions[1].data, "ok");
}

}  // namespace
}  // namespace firebreak::wire
