#include "wire/h2_test_ends.h"

namespace firebreak::wire {
namespace {

using H2 = H2Test;

// Writes `body` as fast as the queue takes it, then finishes.
void send_all(End& end, StreamId id, std::string_view body, Headers trailers,
              std::map<StreamId, std::string>& rest) {
  const std::size_t taken = end.session->write(id, body);
  if (taken == body.size()) {
    rest.erase(id);
    end.session->finish(id, std::move(trailers));
  } else {
    rest[id] = std::string(body.substr(taken));
  }
}

TEST_F(H2, BodiesBothWaysWithTrailers) {
  const Headers request_trailers{{"x-up", "1"}};
  const Headers response_trailers{{"x-down", "2"}, {"x-more", "3"}};
  std::map<StreamId, std::string> up;
  std::map<StreamId, std::string> down;
  client.writable_hook = [&](StreamId id) {
    send_all(client, id, std::string(up[id]), request_trailers, up);
  };
  server.writable_hook = [&](StreamId id) {
    send_all(server, id, std::string(down[id]), response_trailers, down);
  };
  server.end_hook = [&](StreamId id) {
    ASSERT_TRUE(
        server.session->respond(id, {{":status", "201"}, {"x-id", std::to_string(id)}}, false));
    send_all(server, id, std::string(server.streams[id].data), response_trailers, down);
  };
  std::map<StreamId, std::string> bodies;
  for (int i = 0; i < 20; ++i) {
    const StreamId id = request(kPost, false);
    bodies[id] = random_bytes(rng() % 3 == 0 ? rng() % 10 : rng() % 1'000'000);
    send_all(client, id, bodies[id], request_trailers, up);
  }
  pump();
  EXPECT_FALSE(error);
  for (const auto& [id, body] : bodies) {
    const End::Stream& at_server = server.streams[id];
    const End::Stream& at_client = client.streams[id];
    EXPECT_EQ(at_server.headers, kPost);
    EXPECT_EQ(at_server.trailers, request_trailers);
    EXPECT_TRUE(at_server.data == body);
    EXPECT_EQ(find_header(at_client.headers, "x-id"), std::to_string(id));
    EXPECT_EQ(at_client.trailers, response_trailers);
    EXPECT_TRUE(at_client.data == body);
    EXPECT_TRUE(at_client.ended && at_client.closed && at_server.ended && at_server.closed);
    EXPECT_EQ(at_client.code, 0U);
  }
  EXPECT_EQ(client.session->open_streams(), 0U);
  EXPECT_EQ(server.session->open_streams(), 0U);
  EXPECT_TRUE(client.session->alive());
}

TEST_F(H2, NoBodiesEndWithTheHeaders) {
  bool ended_with_headers = false;
  server.headers_hook = [&](StreamId id, bool end) {
    ended_with_headers = end;
    EXPECT_TRUE(server.session->respond(id, {{":status", "204"}}, true));
    EXPECT_FALSE(server.session->respond(id, kOk, true));
  };
  const StreamId id = request(kGet, true);
  pump();
  EXPECT_TRUE(ended_with_headers);
  EXPECT_TRUE(server.streams[id].ended);
  EXPECT_TRUE(client.streams[id].ended && client.streams[id].closed);
  EXPECT_EQ(find_header(client.streams[id].headers, ":status"), "204");
  EXPECT_EQ(find_header(client.streams[id].headers, "absent"), "");
}

TEST_F(H2, ReaderThatDoesNotConsumeStallsItsStreamOnly) {
  const H2Limits limits;
  server.consume = false;
  server.data_hook = [&](StreamId id, std::string_view bytes) {
    if (id != 1) server.session->consume(id, bytes.size());
  };
  const StreamId stalled = request(kPost, false);
  const StreamId flowing = request(kPost, false);
  const std::string chunk = random_bytes(100'000);
  std::size_t stalled_sent = 0;
  std::size_t flowing_sent = 0;
  for (int i = 0; i < 200; ++i) {
    stalled_sent += client.session->write(stalled, chunk);
    flowing_sent += client.session->write(flowing, chunk);
    EXPECT_LE(client.session->queued(stalled), limits.write_queue);
    pump();
  }
  EXPECT_EQ(server.streams[stalled].data.size(), limits.stream_window);
  EXPECT_EQ(client.session->queued(stalled), limits.write_queue);
  EXPECT_EQ(stalled_sent, limits.stream_window + limits.write_queue);
  EXPECT_EQ(server.streams[flowing].data.size(), flowing_sent);
  EXPECT_EQ(flowing_sent, 200 * chunk.size());
  EXPECT_EQ(client.streams[stalled].writable, 0);

  server.session->consume(stalled, limits.stream_window);
  pump();
  EXPECT_GE(server.streams[stalled].data.size(), limits.stream_window + limits.write_queue / 2);
  EXPECT_EQ(client.streams[stalled].writable, 1);
  EXPECT_FALSE(error);
}

// More than the connection's first window (64 KiB) and than its maximum half: both need no
// consume() of the application.
TEST_F(H2, StalledStreamsDoNotUseUpTheConnection) {
  server.consume = false;
  for (int i = 0; i < 50; ++i) {
    const StreamId id = request(kPost, false);
    client.session->write(id, random_bytes(256UL * 1024));
  }
  pump();
  for (auto& [id, stream] : server.streams) EXPECT_EQ(stream.data.size(), 256UL * 1024);
  const StreamId last = request(kPost, false);
  client.session->write(last, "still flows");
  pump();
  EXPECT_EQ(server.streams[last].data, "still flows");
}

TEST_F(H2, BulkDoesNotStarveAnInteractiveStream) {
  server.headers_hook = [&](StreamId id, bool) {
    EXPECT_TRUE(server.session->respond(id, kOk, false));
    server.session->write(id, std::string(256UL * 1024, 'b'));
  };
  server.writable_hook = [&](StreamId id) {
    server.session->write(id, std::string(256UL * 1024, 'b'));
  };
  const StreamId bulk = request(kGet, true);
  for (int i = 0; i < 20; ++i) {
    move(client, server);
    move(server, client);
  }
  EXPECT_GT(client.streams[bulk].data.size(), 100'000U);
  server.headers_hook = [&](StreamId id, bool) {
    EXPECT_TRUE(server.session->respond(id, kOk, false));
    server.session->write(id, "quick");
    server.session->finish(id);
  };
  const StreamId quick = request(kGet, true);
  for (int i = 0; i < 40 && !client.streams[quick].ended; ++i) {
    move(client, server);
    move(server, client);
  }
  EXPECT_TRUE(client.streams[quick].ended);
}

TEST_F(H2, OnWritableComesOnceTheQueueIsHalfEmpty) {
  const StreamId id = request(kPost, false);
  const std::size_t limit = H2Limits().write_queue;
  EXPECT_EQ(client.session->write(id, std::string(limit, 'x')), limit);
  pump();
  EXPECT_EQ(client.streams[id].writable, 0) << "nothing was refused";
  EXPECT_EQ(client.session->write(id, std::string(limit + 1, 'x')), limit);
  EXPECT_EQ(client.session->write(id, "x"), 0U);
  std::string out;
  while (client.session->queued(id) >= limit / 2) {
    EXPECT_EQ(client.streams[id].writable, 0);
    ASSERT_TRUE(client.session->take_output(out, out.size() + 1));
  }
  EXPECT_EQ(client.streams[id].writable, 1);
}

TEST_F(H2, ResetByTheClientReachesTheServer) {
  const StreamId id = request(kPost, false);
  client.session->write(id, std::string(1000, 'x'));
  pump();
  client.session->write(id, std::string(200'000, 'y'));
  client.session->reset(id, H2Error::cancel);
  client.session->reset(id, H2Error::internal);
  EXPECT_EQ(client.session->queued(id), 0U);
  EXPECT_EQ(client.session->write(id, "z"), 0U);
  pump();
  EXPECT_TRUE(client.streams[id].closed);
  EXPECT_TRUE(server.streams[id].closed);
  EXPECT_FALSE(server.streams[id].ended);
  EXPECT_EQ(server.streams[id].code, 8U);
  EXPECT_EQ(server.streams[id].data, std::string(1000, 'x'));
  server.session->consume(id, 5);
  server.session->finish(id);
  EXPECT_FALSE(server.session->respond(id, kOk, true));
  pump();
  EXPECT_FALSE(error);
}

TEST_F(H2, ResetByTheServerWhileDataIsUnderWay) {
  server.consume = false;
  server.data_hook = [&](StreamId id, std::string_view) {
    server.session->reset(id, H2Error::refused);
  };
  const StreamId id = request(kPost, false);
  client.session->write(id, random_bytes(200'000));
  pump();
  EXPECT_EQ(client.streams[id].code, 7U);
  EXPECT_TRUE(client.streams[id].closed);
  EXPECT_TRUE(server.streams[id].closed);
  EXPECT_EQ(client.session->write(id, "more"), 0U);
  // The unconsumed bytes of the dead stream cost nothing.
  server.data_hook = nullptr;
  for (int i = 0; i < 20; ++i) client.session->write(request(kPost, false), random_bytes(200'000));
  pump();
  EXPECT_FALSE(error);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server.streams[3 + 2 * i].data.size(), 200'000U);
}

TEST_F(H2, AnswerBeforeTheEndOfTheRequest) {
  server.headers_hook = [&](StreamId id, bool) {
    EXPECT_TRUE(server.session->respond(id, {{":status", "413"}}, true));
    server.session->reset(id, H2Error::no_error);
  };
  const StreamId id = request(kPost, false);
  client.session->write(id, std::string(1000, 'x'));
  pump();
  EXPECT_EQ(find_header(client.streams[id].headers, ":status"), "413");
  EXPECT_TRUE(client.streams[id].ended && client.streams[id].closed);
  EXPECT_TRUE(server.streams[id].closed);

  const std::string body = random_bytes(200'000);
  server.headers_hook = [&](StreamId stream, bool) {
    EXPECT_TRUE(server.session->respond(stream, kOk, false));
    EXPECT_EQ(server.session->write(stream, body), body.size());
    server.session->finish(stream, {{"x-t", "1"}});
    server.session->reset(stream, H2Error::no_error);
  };
  for (const bool end : {false, true}) {
    const StreamId other = request(kPost, end);
    if (!end) client.session->write(other, std::string(200'000, 'x'));
    pump();
    EXPECT_TRUE(client.streams[other].data == body);
    EXPECT_EQ(client.streams[other].trailers.size(), 1U);
    EXPECT_TRUE(client.streams[other].ended && client.streams[other].closed);
    EXPECT_TRUE(server.streams[other].closed);
    EXPECT_EQ(server.streams[other].code, 0U);
    EXPECT_EQ(server.streams[other].data, "");
  }
  EXPECT_EQ(client.session->open_streams() + server.session->open_streams(), 0U);
  EXPECT_FALSE(error);
}

TEST_F(H2, MoreRequestsThanThePeerTakesWait) {
  H2Limits few;
  few.max_streams = 4;
  connect({}, few);
  pump();
  std::size_t most = 0;
  server.headers_hook = [&](StreamId, bool) {
    most = std::max(most, server.session->open_streams());
  };
  for (int i = 0; i < 50; ++i) request(kGet, true);
  pump();
  EXPECT_EQ(most, 4U);
  // Answering one lets the next in.
  for (int i = 0; i < 50; ++i) {
    const StreamId id = 1 + 2 * i;
    ASSERT_TRUE(server.streams[id].got_headers) << id;
    EXPECT_TRUE(server.session->respond(id, kOk, true));
    pump();
    EXPECT_EQ(client.streams[id].code, 0U);
    EXPECT_TRUE(client.streams[id].closed);
  }
  EXPECT_EQ(most, 4U);
  EXPECT_FALSE(error);
}

TEST_F(H2, RequestsSentBeforeTheLimitIsKnownAreRefused) {
  H2Limits few;
  few.max_streams = 4;
  connect({}, few);
  for (int i = 0; i < 50; ++i) request(kGet, true);
  pump();
  EXPECT_FALSE(error);
  int refused = 0;
  for (auto& [id, stream] : client.streams)
    if (stream.closed && stream.code == 7) ++refused;
  EXPECT_EQ(refused + client.session->open_streams(), 50U);
  EXPECT_EQ(server.session->open_streams(), 4U);
}

TEST_F(H2, CancellingAWaitingRequestClosesItAtOnce) {
  H2Limits few;
  few.max_streams = 1;
  connect({}, few);
  pump();
  request(kGet, true);
  const StreamId waiting = request(kPost, false);
  const StreamId third = request(kGet, true);
  client.session->write(waiting, "never sent");
  pump();
  client.session->reset(waiting, H2Error::cancel);
  pump();
  EXPECT_TRUE(client.streams[waiting].closed);
  EXPECT_EQ(client.streams[waiting].code, 8U);
  EXPECT_EQ(client.session->open_streams(), 2U);
  EXPECT_TRUE(server.session->respond(1, kOk, true));
  pump();
  EXPECT_FALSE(server.streams.contains(waiting));
  EXPECT_TRUE(server.streams[third].got_headers);
  EXPECT_FALSE(error);
}

TEST_F(H2, GoawayLetsOpenStreamsFinish) {
  const StreamId id = request(kGet, true);
  pump();
  server.session->goaway(H2Error::no_error);
  pump();
  EXPECT_EQ(client.goaways, std::vector<std::uint32_t>{0});
  const auto late = client.session->request(kGet, true);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::unavailable);
  EXPECT_TRUE(client.session->alive());
  EXPECT_TRUE(server.session->alive());
  EXPECT_TRUE(server.session->respond(id, kOk, true));
  pump();
  EXPECT_TRUE(client.streams[id].ended && client.streams[id].closed);
  EXPECT_FALSE(client.session->alive());
  EXPECT_FALSE(server.session->alive());
  EXPECT_FALSE(error);
}

TEST_F(H2, GoawayClosesRequestsThePeerHasNotSeen) {
  H2Limits few;
  few.max_streams = 1;
  connect({}, few);
  pump();
  const StreamId first = request(kGet, true);
  const StreamId second = request(kGet, true);
  pump();
  server.session->goaway(H2Error::no_error);
  pump();
  EXPECT_FALSE(client.streams[first].closed);
  EXPECT_TRUE(client.streams[second].closed);
  EXPECT_EQ(client.streams[second].code, 7U);
  EXPECT_TRUE(server.session->respond(first, kOk, true));
  pump();
  EXPECT_TRUE(client.streams[first].closed);
  EXPECT_FALSE(client.session->alive());
}

TEST_F(H2, GoawayWithAnErrorEndsTheSession) {
  request(kGet, true);
  pump();
  client.session->goaway(H2Error::internal);
  pump();
  EXPECT_EQ(server.goaways, std::vector<std::uint32_t>{2});
  EXPECT_FALSE(client.session->alive());
  EXPECT_FALSE(client.session->request(kGet, true));
  EXPECT_FALSE(error) << "ending it ourselves is no violation of the peer";
}

TEST_F(H2, CallbacksMayUseTheSession) {
  int answered = 0;
  server.headers_hook = [&](StreamId id, bool) {
    ASSERT_TRUE(server.session->respond(id, kOk, false));
    EXPECT_EQ(server.session->write(id, "hello"), 5U);
    server.session->finish(id);
  };
  client.closed_hook = [&](StreamId) {
    if (++answered < 30) request(kGet, true);
  };
  request(kGet, true);
  pump();
  EXPECT_EQ(answered, 30);
  client.data_hook = [&](StreamId id, std::string_view) {
    client.session->reset(id, H2Error::cancel);
  };
  request(kGet, true);
  pump();
  EXPECT_EQ(client.session->open_streams() + server.session->open_streams(), 0U);
  EXPECT_FALSE(error);
}

// Random use of everything at once; ends with no stream left on either side and each closed once
// (End checks).
TEST_F(H2, RandomUseLeavesNothingBehind) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    rng.seed(seed);
    client.streams.clear();
    server.streams.clear();
    H2Limits small;
    small.max_streams = 8;
    small.stream_window = 20'000;
    small.write_queue = 30'000;
    connect(small, small);
    server.headers_hook = [&](StreamId id, bool) {
      if (rng() % 4 != 0) EXPECT_TRUE(server.session->respond(id, kOk, rng() % 4 == 0));
    };
    const auto act = [&](End& end) {
      if (end.streams.empty()) return;
      auto it = std::next(end.streams.begin(), static_cast<long>(rng() % end.streams.size()));
      if (it->second.closed) return;
      switch (rng() % 8) {
        case 0:
          end.session->reset(it->first, H2Error::cancel);
          break;
        case 1:
          end.session->finish(it->first);
          break;
        case 2:
          end.session->finish(it->first, {{"x-t", "1"}});
          break;
        case 3:
          end.session->consume(it->first, rng() % 50'000);
          break;
        default:
          end.session->write(it->first, std::string(rng() % 40'000, 'd'));
      }
    };
    for (int step = 0; step < 600; ++step) {
      if (rng() % 5 == 0) client.streams.try_emplace(request(kPost, rng() % 4 == 0));
      client.consume = rng() % 2 == 0;
      server.consume = rng() % 2 == 0;
      act(client);
      act(server);
      if (rng() % 2 == 0) move(client, server);
      if (rng() % 2 == 0) move(server, client);
    }
    for (auto& [id, stream] : client.streams)
      if (!stream.closed) client.session->reset(id, H2Error::cancel);
    pump();
    EXPECT_FALSE(error) << error->text();
    EXPECT_EQ(client.session->open_streams(), 0U);
    EXPECT_EQ(server.session->open_streams(), 0U);
    for (auto& [id, stream] : client.streams) EXPECT_TRUE(stream.closed) << id;
    for (auto& [id, stream] : server.streams) EXPECT_TRUE(stream.closed) << id;
  }
}

}  // namespace
}  // namespace firebreak::wire
