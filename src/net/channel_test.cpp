// The host's end of the channel against a peer made of the same wire parts, honest and hostile.
#include "net/channel.h"

#include <functional>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;
using Socket = Channel::Socket;

// An agent that answers the sync and gives every request to a function.
class Peer : public wire::H2Handler, public wire::LinkDecoder::Sink {
 public:
  using OnRequest = std::function<void(Peer&, wire::StreamId, const std::string& path)>;
  Peer(Socket socket, OnRequest on_request)
      : socket_(std::move(socket)), on_request_(std::move(on_request)) {
    buffer_.resize(16 * 1024);
    read();
  }

  wire::H2Session& session() { return *session_; }
  void answer(wire::StreamId stream, const std::string& body) {
    (void)session_->respond(stream, {{":status", "200"}}, false);
    session_->write(stream, body);
    session_->finish(stream);
    flush();
  }
  void flush() {
    std::string plain;
    while (session_ && session_->take_output(plain)) {
    }
    std::string out;
    encoder_.data(plain, out);
    raw(out);
  }
  void raw(const std::string& bytes) {
    boost::system::error_code ignored;
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  void close() { socket_.close(); }

  bool answer_sync = true;
  std::set<wire::StreamId> reset_streams;
  std::map<wire::StreamId, std::string> bodies;
  std::map<wire::StreamId, bool> ended;

 private:
  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [this](boost::system::error_code ec, std::size_t n) {
                              if (ec) return;
                              decoder_.feed(std::span(buffer_.data(), n), *this);
                              if (session_) flush();
                              read();
                            });
  }
  void on_sync(const wire::Sync& sync) override {
    if (!answer_sync) return;
    std::string out;
    encoder_.sync(sync, out);
    raw(out);
    session_ = wire::H2Session::server({}, *this);
  }
  void on_data(std::string_view bytes) override {
    if (session_) (void)session_->receive(bytes);
  }
  void on_headers(wire::StreamId stream, wire::Headers headers, bool) override {
    on_request_(*this, stream, std::string(wire::find_header(headers, ":path")));
  }
  void on_data(wire::StreamId stream, std::string_view bytes) override {
    bodies[stream] += bytes;
    session_->consume(stream, bytes.size());
  }
  void on_end(wire::StreamId stream) override { ended[stream] = true; }
  void on_closed(wire::StreamId stream, std::uint32_t code) override {
    if (code != 0) reset_streams.insert(stream);
  }

  Socket socket_;
  OnRequest on_request_;
  std::string buffer_;
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  std::unique_ptr<wire::H2Session> session_;
};

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() : host_(io_), guest_(io_) { asio::local::connect_pair(host_, guest_); }

  // Runs one coroutine to its end.
  void run(std::function<Task<void>()> body) {
    bool done = false;
    asio::co_spawn(
        io_,
        [&]() -> Task<void> {
          co_await body();
          done = true;
        },
        [](const std::exception_ptr& e) {
          if (e) std::rethrow_exception(e);
        });
    while (!done && io_.run_one_for(20s) > 0) {
    }
    ASSERT_TRUE(done) << "hung";
  }

  static Deadline soon() { return Deadline::in(10s); }

  asio::io_context io_;
  Socket host_;
  Socket guest_;
};

TEST_F(ChannelTest, CallsTravelBehindTheSync) {
  Peer peer(std::move(guest_), [](Peer& self, wire::StreamId stream, const std::string& path) {
    self.answer(stream, "you asked " + path);
  });
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto reply = co_await channel->call("GET", "/health", "", soon());
    EXPECT_TRUE(reply.has_value()) << reply.error().text();
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "you asked /health");
    EXPECT_TRUE(co_await channel->ready(soon()));
    channel->close();
  });
}

TEST_F(ChannelTest, StaleBytesBeforeTheSyncAreDiscarded) {
  Peer peer(std::move(guest_), [](Peer& self, wire::StreamId stream, const std::string&) {
    self.answer(stream, "ok");
  });
  std::string stale(100'000, 'x');
  wire::LinkEncoder encoder;
  encoder.sync({.version = 1, .nonce = {}}, stale);  // of an earlier connection
  encoder.data("half a frame", stale);
  peer.raw(stale);
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto reply = co_await channel->call("GET", "/", "", soon());
    EXPECT_TRUE(reply.has_value());
    channel->close();
  });
}

TEST_F(ChannelTest, SilentGuestEndsInATimeout) {
  Peer peer(std::move(guest_), [](Peer&, wire::StreamId, const std::string&) {});
  peer.answer_sync = false;
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto ready = co_await channel->ready(Deadline::in(50ms));
    EXPECT_FALSE(ready.has_value());
    EXPECT_EQ(ready.error().code, Code::timeout);
    auto reply = co_await channel->call("GET", "/", "", Deadline::in(50ms));
    EXPECT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code, Code::timeout);
    channel->close();
  });
}

TEST_F(ChannelTest, GarbageAfterTheSyncIsATypedError) {
  Peer peer(std::move(guest_), [](Peer& self, wire::StreamId, const std::string&) {
    wire::LinkEncoder encoder;
    std::string out;
    encoder.data(std::string(64, '\xee'), out);
    self.raw(out);
  });
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto reply = co_await channel->call("GET", "/", "", soon());
    EXPECT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code, Code::guest);
    EXPECT_TRUE(channel->failure().has_value());
    auto again = co_await channel->call("GET", "/", "", soon());
    EXPECT_EQ(again.error().code, Code::guest);
  });
}

TEST_F(ChannelTest, GuestThatDisappearsFailsEveryWaiter) {
  Peer peer(std::move(guest_),
            [](Peer& self, wire::StreamId, const std::string&) { self.close(); });
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto reply = co_await channel->call("GET", "/", "", soon());
    EXPECT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code, Code::guest);
  });
}

TEST_F(ChannelTest, OversizedAnswerIsRefused) {
  Peer peer(std::move(guest_), [](Peer& self, wire::StreamId stream, const std::string&) {
    (void)self.session().respond(stream, {{":status", "200"}}, false);
    // The peer's queue takes 256 KiB at a time; on_writable of the default handler drops the rest,
    // so keep writing here.
    self.session().write(stream, std::string(256 * 1024, 'a'));
  });
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto stream = channel->start("GET", "/", true);
    EXPECT_TRUE(stream.has_value());
    EXPECT_TRUE((co_await (*stream)->head(soon())).has_value());
    // Nothing is read: what the guest may push is bounded by the stream's window, and another
    // request still passes.
    auto other = co_await channel->call("GET", "/other", "", Deadline::in(200ms));
    EXPECT_FALSE(other.has_value());
    EXPECT_EQ(other.error().code, Code::timeout);
    EXPECT_FALSE(channel->failure().has_value());
    channel->close();
  });
}

TEST_F(ChannelTest, DestroyingAStreamCancelsItInTheGuest) {
  wire::StreamId seen = 0;
  Peer peer(std::move(guest_),
            [&](Peer&, wire::StreamId stream, const std::string&) { seen = stream; });
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    {
      auto stream = channel->start("POST", "/long", false);
      EXPECT_TRUE(stream.has_value());
      EXPECT_FALSE((co_await (*stream)->head(Deadline::in(100ms))).has_value());
    }
    Event pause(io_.get_executor());
    for (int i = 0; i < 200 && !peer.reset_streams.contains(seen); ++i)
      co_await pause.wait(Deadline::in(5ms));
    EXPECT_TRUE(peer.reset_streams.contains(seen));
    channel->close();
  });
}

TEST_F(ChannelTest, LargeBodiesFlowBothWays) {
  const std::string big(3'000'000, 'b');
  Peer peer(std::move(guest_), [](Peer&, wire::StreamId, const std::string&) {});
  run([&]() -> Task<void> {
    auto channel = Channel::start(std::move(host_));
    auto stream = channel->start("PUT", "/files", false);
    EXPECT_TRUE(stream.has_value());
    EXPECT_TRUE((co_await (*stream)->write(big, soon())).has_value());
    (*stream)->finish();
    Event pause(io_.get_executor());
    for (int i = 0; i < 1000 && !peer.ended[1]; ++i) co_await pause.wait(Deadline::in(5ms));
    EXPECT_EQ(peer.bodies[1].size(), big.size());
    peer.answer(1, "done");
    auto head = co_await (*stream)->head(soon());
    EXPECT_EQ(head->status, 200);
    EXPECT_EQ(*co_await (*stream)->read(soon()), "done");
    EXPECT_EQ(*co_await (*stream)->read(soon()), "");
    channel->close();
  });
}

}  // namespace
}  // namespace firebreak::net
