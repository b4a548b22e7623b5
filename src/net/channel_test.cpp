// The host's end of the channel against a peer made of the same wire parts, honest and hostile.
#include "net/channel_test_support.h"

namespace firebreak::net {
namespace {

using namespace std::chrono_literals;

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
