// What the resolver answers, asks and opens.
#include "egress/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/resolver_test_support.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
using net::Task;
using net::asio::ip::udp;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::dns_ask;
using wire::dns_ask_edns;
using wire::DnsRead;
using wire::kDnsAaaa;

TEST_F(ResolverTest, AnswersAllowedNamesAndPinsTheirAddresses) {
  serve();
  const DnsRead got = ask(dns_ask("Ok.TEST"));
  EXPECT_EQ(got.rcode, 0);
  EXPECT_EQ(got.question, "Ok.TEST") << "clients compare the case";
  EXPECT_THAT(got.addresses, ElementsAre("192.0.2.1", "192.0.2.2"));
  EXPECT_THAT(upstream_.asked, ElementsAre("ok.test A")) << "case would carry data out";
  ASSERT_THAT(pins_, SizeIs(1));
  EXPECT_EQ(pins_[0].name, "ok.test");
  EXPECT_THAT(pins_[0].addresses, ElementsAre(ip("192.0.2.1"), ip("192.0.2.2")));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_TRUE(events_[0].allowed);
  EXPECT_EQ(events_[0].addresses, pins_[0].addresses);
  EXPECT_THAT(ask(dns_ask("ok.test", kDnsAaaa)).addresses, ElementsAre("2001:db8::1"));
}

TEST_F(ResolverTest, DeniedNamesStayOnTheHost) {
  serve();
  const DnsRead got = ask(dns_ask_edns("c2VjcmV0.evil.test", 1232));
  EXPECT_EQ(got.rcode, 5);
  EXPECT_EQ(got.error, 15);
  EXPECT_THAT(got.text, HasSubstr("policy web has no rule for c2vjcmv0.evil.test; add one"));
  EXPECT_EQ(ask(dns_ask("evil.test", 16)).rcode, 5) << "TXT";
  EXPECT_EQ(ask(dns_ask("xn.ok.test")).rcode, 5) << "below an allowed name";
  EXPECT_THAT(upstream_.asked, IsEmpty());
  EXPECT_THAT(pins_, IsEmpty());
  ASSERT_THAT(events_, SizeIs(3));
  EXPECT_FALSE(events_[0].allowed);
}

TEST_F(ResolverTest, OnlyAddressesAreAskedFor) {
  serve();
  for (const std::uint16_t type : {2, 5, 10, 15, 16, 33, 64, 65, 99, 252, 255, 65535}) {
    const DnsRead got = ask(dns_ask("ok.test", type));
    EXPECT_EQ(got.rcode, 0) << type;
    EXPECT_THAT(got.addresses, IsEmpty()) << type;
  }
  EXPECT_THAT(upstream_.asked, IsEmpty());
}

TEST_F(ResolverTest, OddNamesAndClassesAreRefused) {
  allowed_.insert("169.254.169.254");
  allowed_.insert("");
  serve();
  EXPECT_EQ(ask(dns_ask("169.254.169.254")).rcode, 5);
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(to_string(events_[0].label), "always:bad-name");
  std::string chaos = dns_ask("ok.test");
  chaos.back() = 3;
  EXPECT_EQ(ask(chaos).rcode, 5);
  EXPECT_EQ(ask(wire::dns_header(0, 0, 0)).rcode, 1);
  EXPECT_EQ(ask(wire::dns_header(0x2000, 1, 0) + wire::dns_question("ok.test", 1)).rcode, 4);
  EXPECT_THAT(upstream_.asked, IsEmpty());
}

TEST_F(ResolverTest, AddressesThatMayNotBeReachedAreLeftOut) {
  upstream_.add("ok.test", {"10.0.0.1", "192.0.2.9"});
  upstream_.add("rebind.test", {"10.0.0.1", "10.0.0.2"});
  allowed_.insert("rebind.test");
  serve();
  EXPECT_THAT(ask(dns_ask("ok.test")).addresses, ElementsAre("192.0.2.9"));
  ASSERT_THAT(pins_, SizeIs(1));
  EXPECT_THAT(pins_[0].addresses, ElementsAre(ip("192.0.2.9")));
  const DnsRead got = ask(dns_ask_edns("rebind.test", 1232));
  EXPECT_EQ(got.rcode, 5);
  EXPECT_THAT(got.text, HasSubstr("10.0.0.1"));
  EXPECT_THAT(pins_, SizeIs(1));
  EXPECT_FALSE(events_.back().allowed);
}

TEST_F(ResolverTest, TimesToLiveAreClampedAndPinsLiveLonger) {
  upstream_.add("short.test", {"192.0.2.1"}, 0s);
  upstream_.add("long.test", {"192.0.2.1"}, 86'400s);
  allowed_ = {"ok.test", "short.test", "long.test"};
  ResolverOptions options;
  serve(options);
  EXPECT_EQ(ask(dns_ask("ok.test")).ttl, 60U);
  EXPECT_EQ(ask(dns_ask("short.test")).ttl, 15U);
  EXPECT_EQ(ask(dns_ask("long.test")).ttl, 300U);
  ASSERT_THAT(pins_, SizeIs(3));
  EXPECT_EQ(pins_[0].lifetime, 60s + options.limits.pin_longer);
  EXPECT_EQ(pins_[1].lifetime, 15s + options.limits.pin_longer);
  EXPECT_EQ(pins_[2].lifetime, 300s + options.limits.pin_longer);
}

TEST_F(ResolverTest, TheGuestLearnsAnAddressOnlyWhenItCanBeReached) {
  serve();
  pin_held_ = true;
  udp::socket socket(io_, udp::v4());
  send(socket, dns_ask("ok.test"));
  run([&]() -> Task<void> {
    net::Event pause(io_.get_executor());
    while (pins_.empty()) (void)co_await pause.wait(Deadline::in(1ms));
  });
  settle();
  EXPECT_EQ(socket.available(), 0U);
  pin_held_ = false;
  pin_changed_.notify();
  run([&]() -> Task<void> { EXPECT_THAT((co_await receive(socket)).addresses, SizeIs(2)); });
  pin_fails_ = true;
  const DnsRead got = ask(dns_ask_edns("ok.test", 1232));
  EXPECT_EQ(got.rcode, 2);
  EXPECT_THAT(got.addresses, IsEmpty());
}

TEST_F(ResolverTest, APolicyThatChangesMeanwhileCounts) {
  serve();
  upstream_.held = true;
  udp::socket socket(io_, udp::v4());
  send(socket, dns_ask("ok.test"));
  run([&]() -> Task<void> {
    while (upstream_.asked.empty()) (void)co_await upstream_.changed.wait(soon());
    allowed_.clear();
    upstream_.release();
    EXPECT_EQ((co_await receive(socket)).rcode, 5);
  });
  EXPECT_THAT(pins_, IsEmpty());
}

TEST_F(ResolverTest, MissingNamesAndFailuresAreToldApart) {
  upstream_.known["half.test A"] = Resolved{.status = Resolved::Status::no_data};
  allowed_ = {"half.test", "none.test", "ok.test"};
  serve({.limits = {.answer_within = 30ms}});
  EXPECT_EQ(ask(dns_ask("none.test")).rcode, 3);
  const DnsRead half = ask(dns_ask("half.test"));
  EXPECT_EQ(half.rcode, 0);
  EXPECT_THAT(half.addresses, IsEmpty());
  upstream_.held = true;
  const DnsRead late = ask(dns_ask_edns("ok.test", 1232));
  EXPECT_EQ(late.rcode, 2);
  EXPECT_EQ(late.error, 22);
}

TEST_F(ResolverTest, WithoutIpv6NoNameHasSuchAddresses) {
  serve({.ipv6 = false});
  const DnsRead got = ask(dns_ask("ok.test", kDnsAaaa));
  EXPECT_EQ(got.rcode, 0);
  EXPECT_THAT(got.addresses, IsEmpty());
  EXPECT_THAT(upstream_.asked, IsEmpty());
}

}  // namespace
}  // namespace firebreak::egress
