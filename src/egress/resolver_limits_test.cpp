// The resolver under load: streams, floods, bounds, and its end while it works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/resolver_test_support.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
using net::Task;
using net::asio::ip::udp;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::dns_ask;
using wire::dns_ask_edns;
using wire::DnsRead;
using wire::kDnsAaaa;

TEST_F(ResolverTest, TruncatesDatagramsAndAnswersWholeOverTcp) {
  std::vector<std::string> many;
  for (int i = 1; i <= 40; ++i) many.push_back("2001:db8::" + std::to_string(i));
  upstream_.add("ok.test", many);
  serve();
  const DnsRead cut = ask(dns_ask("ok.test", kDnsAaaa));
  EXPECT_TRUE(cut.truncated);
  EXPECT_LE(size_, 512U);
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    // Two questions at once, and a third in pieces.
    const std::string question = wire::frame_dns(dns_ask("ok.test", kDnsAaaa));
    EXPECT_TRUE(co_await stream->write(question + question + question.substr(0, 5), soon()));
    for (int i = 0; i < 2; ++i) {
      const DnsRead whole = co_await read_stream(*stream);
      EXPECT_FALSE(whole.truncated);
      EXPECT_THAT(whole.addresses, SizeIs(32)) << "more would only fill the guest's set";
    }
    EXPECT_TRUE(co_await stream->write(question.substr(5), soon()));
    EXPECT_THAT((co_await read_stream(*stream)).addresses, SizeIs(32));
  });
}

TEST_F(ResolverTest, ServesQuestionsOfAConnectionInOrder) {
  serve();
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    const std::string first = wire::frame_dns(dns_ask("ok.test"));
    EXPECT_TRUE(co_await stream->write(first.substr(0, 1), soon()));
    EXPECT_TRUE(co_await stream->write(first.substr(1), soon()));
    EXPECT_THAT((co_await read_stream(*stream)).addresses, SizeIs(2));
    EXPECT_TRUE(co_await stream->write(wire::frame_dns(dns_ask("no.test")), soon()));
    EXPECT_EQ((co_await read_stream(*stream)).rcode, 5);
    EXPECT_TRUE(co_await stream->write(std::string("\xff\xff", 2), soon()));
    EXPECT_EQ((co_await read_stream(*stream)).rcode, -1) << "too long: the connection ends";
  });
}

TEST_F(ResolverTest, HoldsFewConnectionsAndNotForEver) {
  serve({.limits = {.connections = 1, .connection_idle = 1s}});
  run([&]() -> Task<void> {
    auto idle = co_await connect();
    auto second = co_await connect();  // waits in the backlog until the first is cut
    EXPECT_TRUE(co_await second->write(wire::frame_dns(dns_ask("ok.test")), soon()));
    EXPECT_THAT((co_await read_stream(*second)).addresses, SizeIs(2));
    auto end = co_await idle->read(soon());
    EXPECT_TRUE(!end || end->empty());
  });
}

TEST_F(ResolverTest, AFloodIsReadNoFasterThanTheRate) {
  serve({.limits = {.queries_per_second = 10}});
  udp::socket socket(io_, udp::v4());
  for (int i = 0; i < 60; ++i) send(socket, dns_ask("no.test"));
  settle();
  EXPECT_GE(events_.size(), 9U);
  EXPECT_LT(events_.size(), 40U);
  const std::size_t before = events_.size();
  run([&]() -> Task<void> {  // it goes on as time passes
    net::Event pause(io_.get_executor());
    while (events_.size() <= before) (void)co_await pause.wait(Deadline::in(5ms));
  });
}

TEST_F(ResolverTest, FewQuestionsWaitAtATime) {
  upstream_.held = true;
  serve({.limits = {.outstanding = 2}});
  udp::socket held(io_, udp::v4());
  send(held, dns_ask("ok.test"));
  send(held, dns_ask("ok.test", kDnsAaaa));
  run([&]() -> Task<void> {
    while (upstream_.asked.size() < 2) (void)co_await upstream_.changed.wait(soon());
  });
  EXPECT_EQ(ask(dns_ask("ok.test")).rcode, 2);
  EXPECT_EQ(ask(dns_ask("no.test")).rcode, 5) << "a denial needs nobody";
  EXPECT_THAT(upstream_.asked, SizeIs(2));
  upstream_.release();
  run([&]() -> Task<void> {
    (void)co_await receive(held);
    (void)co_await receive(held);
  });
  EXPECT_THAT(ask(dns_ask("ok.test")).addresses, SizeIs(2)) << "they have given their places back";
}

TEST_F(ResolverTest, NamesUnderAWildcardAreCounted) {
  serve({.limits = {.names = {.per_rule = 3}}});
  for (const char* name : {"a.wild.test", "b.wild.test", "c.wild.test", "a.wild.test"})
    EXPECT_EQ(ask(dns_ask(name)).rcode, 3) << name;
  const DnsRead fourth = ask(dns_ask_edns("d.wild.test", 1232));
  EXPECT_EQ(fourth.rcode, 5);
  EXPECT_EQ(fourth.error, 18);
  EXPECT_THAT(fourth.text, HasSubstr("policy:1"));
  EXPECT_THAT(upstream_.asked, SizeIs(4));
  EXPECT_THAT(ask(dns_ask("ok.test")).addresses, SizeIs(2)) << "exact names are not";
  EXPECT_EQ(ask(dns_ask("b.wild.test")).rcode, 3) << "nor those it has asked before";
  resolver_->policy_changed();
  EXPECT_EQ(ask(dns_ask("d.wild.test")).rcode, 3);
}

TEST_F(ResolverTest, CloseCancelsWhatIsBeingAsked) {
  upstream_.held = true;
  serve();
  udp::socket socket(io_, udp::v4());
  send(socket, dns_ask("ok.test"));
  run([&]() -> Task<void> {
    auto stream = co_await connect();
    EXPECT_TRUE(co_await stream->write(wire::frame_dns(dns_ask("ok.test")), soon()));
    while (upstream_.asked.size() < 2) (void)co_await upstream_.changed.wait(soon());
    co_await resolver_->close(soon());
    EXPECT_EQ(upstream_.ended, 2);
    EXPECT_EQ((co_await read_stream(*stream)).rcode, -1);
  });
  resolver_.reset();
  upstream_.release();
  settle();
  EXPECT_EQ(socket.available(), 0U);
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(ResolverTest, IsDestroyedWhileItWorks) {
  upstream_.held = true;
  serve();
  udp::socket socket(io_, udp::v4());
  send(socket, dns_ask("ok.test"));
  run([&]() -> Task<void> {
    while (upstream_.asked.empty()) (void)co_await upstream_.changed.wait(soon());
  });
  resolver_.reset();
  upstream_.release();
  settle();
  EXPECT_EQ(upstream_.ended, 1);
  EXPECT_THAT(events_, IsEmpty());
}

}  // namespace
}  // namespace firebreak::egress
