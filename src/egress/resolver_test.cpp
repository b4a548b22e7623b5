#include "egress/resolver.h"

#include <list>
#include <map>
#include <set>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/loop_test_support.h"
#include "net/broadcast.h"
#include "net/tcp_stream.h"
#include "wire/dns_test_support.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
namespace asio = net::asio;
using asio::ip::tcp;
using asio::ip::udp;
using net::Task;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::dns_ask;
using wire::dns_ask_edns;
using wire::DnsRead;
using wire::kDnsA;
using wire::kDnsAaaa;

Deadline soon() {
  return Deadline::in(10s);
}

core::IpAddress ip(std::string_view text) {
  return core::parse_address(text).value_or(core::IpAddress{});
}

// Knows a few names; may be told to wait.
class FakeUpstream : public Upstream {
 public:
  explicit FakeUpstream(const asio::any_io_executor& executor) : changed(executor) {}

  Task<Result<Resolved>> resolve(std::string name, Family family, Deadline deadline) override {
    struct Ends {
      explicit Ends(int& count) : ended(count) {}
      ~Ends() { ++ended; }
      Ends(const Ends&) = delete;
      Ends& operator=(const Ends&) = delete;
      int& ended;
    };
    const Ends ends(ended);
    asked.push_back(name + (family == Family::v4 ? " A" : " AAAA"));
    changed.notify();
    while (held) {
      if (!co_await changed.wait(deadline))
        co_return fail(Code::timeout, "the host's resolvers did not answer");
    }
    const auto at = known.find(asked.back());
    co_return at == known.end() ? Resolved{.status = Resolved::Status::no_name} : at->second;
  }

  void add(const std::string& name, const std::vector<std::string>& addresses,
           std::chrono::seconds ttl = 60s) {
    Resolved found{.ttl = ttl};
    for (const std::string& address : addresses) found.addresses.push_back(ip(address));
    known[name + (found.addresses.front().v6 ? " AAAA" : " A")] = found;
  }
  void release() {
    held = false;
    changed.notify();
  }

  std::map<std::string, Resolved> known;
  std::vector<std::string> asked;
  bool held = false;
  int ended = 0;
  net::Broadcast changed;
};

class ResolverTest : public LoopTest {
 protected:
  void SetUp() override {
    upstream_.add("ok.test", {"192.0.2.1", "192.0.2.2"});
    upstream_.add("ok.test", {"2001:db8::1"});
    allowed_ = {"ok.test"};
  }
  void TearDown() override {
    resolver_.reset();
    while (io_.poll_one() > 0) {
    }
  }

  ResolverHooks hooks() {
    return {
        .decide =
            [this](const std::string& name) {
              NameVerdict out;
              out.decision.allowed = allowed_.contains(name) || name.ends_with(".wild.test");
              out.decision.label = {core::EgressLayer::policy, 1};
              out.decision.reason = "policy web has no rule for " + name + "; add one";
              out.wildcard = name.ends_with(".wild.test");
              return out;
            },
        .may_pin = [](const core::IpAddress& address) { return address.bytes[0] != 10; },
        .pin = [this](PinRequest request, Deadline deadline) -> Task<Result<>> {
          pins_.push_back(std::move(request));
          while (pin_held_) (void)co_await pin_changed_.wait(deadline);
          if (pin_fails_) co_return fail(Code::internal, "the rules could not be loaded");
          co_return Result<>();
        },
        .decided = [this](const NameEvent& event) { events_.push_back(event); },
    };
  }

  void serve(const ResolverOptions& options = {}) {
    udp::socket datagrams(io_, udp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::acceptor streams(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    udp_at_ = datagrams.local_endpoint();
    tcp_at_ = streams.local_endpoint();
    ResolverSockets sockets;
    sockets.udp.emplace_back(datagrams.release());
    sockets.tcp.emplace_back(streams.release());
    auto made =
        Resolver::start(io_.get_executor(), std::move(sockets), upstream_, hooks(), options);
    ASSERT_TRUE(made) << made.error().text();
    resolver_ = *std::move(made);
  }

  void send(udp::socket& socket, const std::string& message) {
    socket.send_to(asio::buffer(message), udp_at_);
  }
  Task<DnsRead> receive(udp::socket& socket) {
    std::string buffer(4096, '\0');
    const std::size_t size =
        co_await socket.async_receive(asio::buffer(buffer), asio::use_awaitable);
    buffer.resize(size);
    size_ = size;
    co_return wire::read_dns(buffer);
  }
  Task<DnsRead> exchange(std::string message) {
    udp::socket socket(io_, udp::v4());
    send(socket, message);
    co_return co_await receive(socket);
  }
  DnsRead ask(const std::string& message) {
    DnsRead got;
    run([&]() -> Task<void> { got = co_await exchange(message); });
    return got;
  }
  Task<std::unique_ptr<net::ByteStream>> connect() {
    tcp::socket socket(io_);
    co_await socket.async_connect(tcp_at_, asio::use_awaitable);
    co_return net::make_tcp_stream(std::move(socket));
  }
  Task<DnsRead> read_stream(net::ByteStream& stream) {
    while (rest_.size() < 2 || rest_.size() < 2UL + get_u16(rest_.data())) {
      auto more = co_await stream.read(soon());
      if (!more || more->empty()) co_return DnsRead{.rcode = -1};
      rest_ += *more;
    }
    const std::size_t size = get_u16(rest_.data());
    const std::string message = rest_.substr(2, size);
    rest_.erase(0, 2 + size);
    co_return wire::read_dns(message);
  }
  // Everything that can be done without waiting.
  void settle() {
    while (io_.poll() > 0) {
    }
  }

  FakeUpstream upstream_{io_.get_executor()};
  std::set<std::string> allowed_;
  std::vector<PinRequest> pins_;
  bool pin_held_ = false;
  bool pin_fails_ = false;
  net::Event pin_changed_{io_.get_executor()};
  std::vector<NameEvent> events_;
  std::unique_ptr<Resolver> resolver_;
  udp::endpoint udp_at_;
  tcp::endpoint tcp_at_;
  std::size_t size_ = 0;
  std::string rest_;  // of a stream, behind the answer that was read
};

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

TEST(NameBudget, ForgetsAfterAWhileAndHasATotal) {
  using Clock = NameBudget::Clock;
  NameBudget budget({.per_rule = 2, .total = 3, .period = 60min});
  const auto start = Clock::time_point{} + 1h;
  EXPECT_TRUE(budget.take("policy:1", "a", start));
  EXPECT_TRUE(budget.take("policy:1", "b", start + 30min));
  EXPECT_FALSE(budget.take("policy:1", "c", start + 31min));
  EXPECT_TRUE(budget.take("policy:1", "a", start + 31min));
  EXPECT_TRUE(budget.take("policy:2", "c", start + 31min));
  EXPECT_FALSE(budget.take("policy:3", "d", start + 31min)) << "three in all";
  EXPECT_TRUE(budget.take("policy:1", "d", start + 60min)) << "a is forgotten";
  EXPECT_FALSE(budget.take("policy:1", "a", start + 60min));
}

core::EgressPolicy policy_of(std::string_view rules) {
  auto policy =
      core::egress_policy_from_json(R"({"name":"web","rules":)" + std::string(rules) + "}");
  EXPECT_TRUE(policy) << policy.error().text();
  return policy.value_or(core::EgressPolicy{});
}

TEST(JudgeName, OnlyNamesThatNoRuleSpellsOutAreCounted) {
  const auto exact = policy_of(R"([{"action":"allow","domain":"a.x.test","ports":[443]}])");
  const auto below = policy_of(R"([{"action":"allow","domain":"*.x.test","ports":[443]}])");
  const auto counted = [](const core::EgressPolicy& maximum, const core::EgressPolicy& policy) {
    const NameVerdict verdict = judge_name({.maximum = maximum, .policy = policy}, "A.x.test");
    EXPECT_TRUE(verdict.decision.allowed);
    return verdict.wildcard;
  };
  const core::EgressPolicy all = core::internet_egress();
  EXPECT_FALSE(counted(all, all));
  EXPECT_FALSE(counted(all, exact));
  EXPECT_TRUE(counted(all, below));
  EXPECT_TRUE(counted(below, all));
  EXPECT_TRUE(counted(below, below));
  EXPECT_FALSE(counted(below, exact));
  EXPECT_FALSE(counted(exact, below));
}

}  // namespace
}  // namespace firebreak::egress
