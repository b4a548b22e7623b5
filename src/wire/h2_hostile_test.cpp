#include "wire/h2_test_ends.h"

namespace firebreak::wire {
namespace {

using H2Hostile = H2Test;

TEST_F(H2Hostile, HeaderBlockCapResetsTheStreamOnly) {
  pump();
  Headers big = kGet;
  for (int i = 0; i < 40; ++i) big.push_back({"x-" + std::to_string(i), std::string(1000, 'v')});
  const StreamId id = request(big, true);
  pump();
  EXPECT_FALSE(server.streams.contains(id));
  EXPECT_EQ(client.streams[id].code, 11U);

  server.headers_hook = [&](StreamId stream, bool) {
    Headers answer = kOk;
    answer.insert(answer.end(), big.begin() + 4, big.end());
    EXPECT_TRUE(server.session->respond(stream, answer, true));
  };
  const StreamId other = request(kGet, true);
  pump();
  EXPECT_FALSE(client.streams[other].got_headers);
  EXPECT_TRUE(client.streams[other].closed);
  EXPECT_EQ(client.streams[other].code, 11U);
  EXPECT_FALSE(error);
  EXPECT_EQ(server.session->open_streams(), 0U);
}

TEST_F(H2Hostile, HeadersThatCannotBeSentAreRefused) {
  Headers bad = kGet;
  bad.push_back({"x-a", "line\r\nbreak"});
  ASSERT_FALSE(client.session->request(bad, true));
  EXPECT_EQ(client.session->request(bad, true).error().code, Code::invalid);
  bad.back() = {"Upper", "x"};
  EXPECT_FALSE(client.session->request(bad, true));
  // Larger than nghttp2 is willing to send: the stream ends, the connection stays.
  Headers huge = kGet;
  for (int i = 0; i < 200; ++i) huge.push_back({"x-" + std::to_string(i), std::string(1000, 'v')});
  const StreamId id = request(huge, true);
  pump();
  EXPECT_TRUE(client.streams[id].closed);
  server.headers_hook = [&](StreamId stream, bool) {
    Headers answer = kOk;
    answer.insert(answer.end(), huge.begin() + 4, huge.end());
    EXPECT_TRUE(server.session->respond(stream, answer, true));
  };
  const StreamId other = request(kGet, true);
  pump();
  EXPECT_TRUE(client.streams[other].closed);
  EXPECT_EQ(client.session->open_streams() + server.session->open_streams(), 0U);
  EXPECT_FALSE(error);
}

TEST_F(H2Hostile, BadTrailersResetTheStream) {
  const StreamId id = request(kPost, false);
  client.session->finish(id, {{"x", "bad\nvalue"}});
  pump();
  EXPECT_TRUE(client.streams[id].closed);
  EXPECT_FALSE(server.streams[id].ended);
  EXPECT_NE(server.streams[id].code, 0U);
}

TEST_F(H2Hostile, InformationalResponsesAreSkipped) {
  const StreamId id = request(kGet, true);
  std::string out;
  while (client.session->take_output(out)) {
  }
  // SETTINGS; HEADERS on stream 1: ":status: 103" as a literal without indexing (name index 8);
  // then ":status: 200" (index 8).
  std::string answer("\0\0\0\x04\0\0\0\0\0", 9);
  answer += std::string("\0\0\x05\x01\x04\0\0\0\x01", 9) + "\x08\x03" + "103";
  answer += std::string("\0\0\x01\x01\x05\0\0\0\x01", 9) + "\x88";
  ASSERT_TRUE(client.session->receive(answer));
  EXPECT_EQ(client.streams[id].headers, kOk);
  EXPECT_TRUE(client.streams[id].ended && client.streams[id].closed);
}

TEST_F(H2Hostile, GarbageIsAnErrorForBothEnds) {
  for (int round = 0; round < 200; ++round) {
    connect({}, {});
    const std::string garbage = random_bytes(100'000);
    const auto at_server = server.session->receive(garbage);
    ASSERT_FALSE(at_server);
    EXPECT_EQ(at_server.error().code, Code::guest);
    const auto at_client = client.session->receive(garbage);
    ASSERT_FALSE(at_client);
    EXPECT_EQ(at_client.error().code, Code::guest);
    EXPECT_FALSE(client.session->receive("")) << "for good";
    EXPECT_FALSE(client.session->request(kGet, true));
    std::string out;
    while (client.session->take_output(out)) {
    }
    EXPECT_FALSE(client.session->alive());
  }
}

// nghttp2 accepts these bytes and answers with GOAWAY: receive() must say so at once.
TEST_F(H2Hostile, ViolationInsideAnEstablishedSession) {
  request(kPost, false);
  pump();
  const std::string data_on_idle_stream("\0\0\x01\0\0\0\0\0\x63x", 10);
  const auto fed = server.session->receive(data_on_idle_stream);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, Code::guest);
  const auto also = client.session->receive(data_on_idle_stream);
  ASSERT_FALSE(also);
  EXPECT_EQ(also.error().code, Code::guest);
  EXPECT_FALSE(server.streams[1].closed) << "the owner drops the session, streams get no event";
}

TEST_F(H2Hostile, HalfAFrameIsNoError) {
  request(kGet, true);
  std::string out;
  while (client.session->take_output(out)) {
  }
  ASSERT_TRUE(server.session->receive(std::string_view(out).substr(0, out.size() - 1)));
  EXPECT_TRUE(server.streams.empty());
  EXPECT_TRUE(server.session->alive());
  ASSERT_TRUE(server.session->receive(std::string_view(out).substr(out.size() - 1)));
  EXPECT_TRUE(server.streams[1].got_headers);
}

TEST_F(H2Hostile, RapidResetEndsTheConnection) {
  H2Limits strict;
  strict.max_resets_per_second = 20;
  connect({}, strict);
  pump();
  int opened = 0;
  while (!error && opened < 1000) {
    const StreamId id = request(kGet, true);
    ++opened;
    move(client, server);
    client.session->reset(id, H2Error::no_error);
    move(client, server);
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::guest);
  EXPECT_GE(opened, 20);
  EXPECT_LE(opened, 200);
  pump();
  EXPECT_EQ(client.goaways, std::vector<std::uint32_t>{11});
}

TEST_F(H2Hostile, ResetsOfOurOwnAreNotCounted) {
  H2Limits strict;
  strict.max_resets_per_second = 5;
  connect({}, strict);
  server.headers_hook = [&](StreamId id, bool) { server.session->reset(id, H2Error::refused); };
  for (int i = 0; i < 60; ++i) request(kGet, true);
  pump();
  EXPECT_FALSE(error);
}

TEST_F(H2Hostile, PingFloodWithoutReadingEndsTheConnection) {
  pump();
  const std::string ping = std::string("\0\0\x08\x06\0\0\0\0\0", 9) + "12345678";
  Result<> fed;
  std::size_t sent = 0;
  while (fed && sent < 1'000'000) {
    fed = server.session->receive(ping);
    ++sent;
  }
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, Code::guest);
  EXPECT_LT(sent, 100'000U);
}

}  // namespace
}  // namespace firebreak::wire
