// For tests: two H2Sessions wired to each other in memory, with random fragmentation.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/h2_session.h"

namespace firebreak::wire {

inline const Headers kGet = {
    {":method", "GET"}, {":scheme", "http"}, {":authority", "agent"}, {":path", "/x"}};
inline const Headers kPost = {
    {":method", "POST"}, {":scheme", "http"}, {":authority", "agent"}, {":path", "/x"}};
inline const Headers kOk = {{":status", "200"}};

// One end: records what happens to each stream and checks the order of events.
class End : public H2Handler {
 public:
  struct Stream {
    Headers headers;
    Headers trailers;
    std::string data;
    bool got_headers = false;
    bool ended = false;
    bool closed = false;
    std::uint32_t code = 0;
    int writable = 0;
  };

  void on_headers(StreamId id, Headers headers, bool end) override {
    Stream& stream = open(id);
    EXPECT_FALSE(stream.got_headers);
    stream.got_headers = true;
    stream.headers = std::move(headers);
    if (headers_hook) headers_hook(id, end);
  }
  void on_trailers(StreamId id, Headers trailers) override {
    open(id).trailers = std::move(trailers);
  }
  void on_data(StreamId id, std::string_view bytes) override {
    EXPECT_TRUE(open(id).got_headers);
    open(id).data.append(bytes);
    if (consume) session->consume(id, bytes.size());
    if (data_hook) data_hook(id, bytes);
  }
  void on_end(StreamId id) override {
    EXPECT_FALSE(open(id).ended);
    open(id).ended = true;
    if (end_hook) end_hook(id);
  }
  void on_writable(StreamId id) override {
    ++open(id).writable;
    if (writable_hook) writable_hook(id);
  }
  void on_closed(StreamId id, std::uint32_t code) override {
    Stream& stream = open(id);
    stream.closed = true;
    stream.code = code;
    if (closed_hook) closed_hook(id);
  }
  void on_goaway(std::uint32_t code) override { goaways.push_back(code); }

  // Every event but the first comes here before the stream was closed.
  Stream& open(StreamId id) {
    Stream& stream = streams[id];
    EXPECT_FALSE(stream.closed) << "event after on_closed of stream " << id;
    return stream;
  }

  std::unique_ptr<H2Session> session;
  std::map<StreamId, Stream> streams;
  std::vector<std::uint32_t> goaways;
  bool consume = true;
  std::function<void(StreamId, bool)> headers_hook;
  std::function<void(StreamId, std::string_view)> data_hook;
  std::function<void(StreamId)> end_hook;
  std::function<void(StreamId)> writable_hook;
  std::function<void(StreamId)> closed_hook;
};

class H2Test : public testing::Test {
 protected:
  void SetUp() override { connect({}, {}); }

  void connect(const H2Limits& client_limits, const H2Limits& server_limits) {
    client.session = H2Session::client(client_limits, client);
    server.session = H2Session::server(server_limits, server);
  }

  // Moves a little from one end to the other, in random pieces. False when there was nothing.
  bool move(End& from, End& to) {
    std::string out;
    if (!from.session->take_output(out, 1 + rng() % 40000)) return false;
    for (std::size_t at = 0; at < out.size();) {
      const std::size_t most = rng() % 4 == 0 ? 7 : 5000;
      const std::size_t size = std::min<std::size_t>(out.size() - at, 1 + rng() % most);
      const auto fed = to.session->receive(std::string_view(out).substr(at, size));
      if (!fed) error = fed.error();
      at += size;
    }
    return true;
  }

  void pump() {
    for (int idle = 0; idle < 2;) {
      const bool moved = rng() % 2 == 0 ? move(client, server) : move(server, client);
      if (moved)
        idle = 0;
      else if (!move(client, server) && !move(server, client))
        ++idle;
    }
  }

  StreamId request(const Headers& headers, bool end) {
    auto id = client.session->request(headers, end);
    EXPECT_TRUE(id);
    return id.value_or(-1);
  }

  std::string random_bytes(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(rng());
    return bytes;
  }

  std::mt19937 rng{42};
  End client;
  End server;
  std::optional<Error> error;
};

}  // namespace firebreak::wire
