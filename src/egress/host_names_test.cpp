#include "egress/host_names.h"

#include <cstdlib>
#include <functional>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "egress/loop_test_support.h"
#include "net/tcp_stream.h"
#include "wire/dns_test_support.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
using namespace net::asio::experimental::awaitable_operators;
namespace asio = net::asio;
using asio::ip::tcp;
using asio::ip::udp;
using net::Task;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using wire::DnsAnswer;
using wire::DnsQuery;
using wire::DnsRcode;

const std::string kAddress("\xc0\0\2\7", 4);

// A name server on loopback, both transports on one port.
class TinyServer {
 public:
  explicit TinyServer(asio::io_context& io) : udp_(io), acceptor_(io) {
    bool bound = false;
    for (int tries = 0; !bound && tries < 50; ++tries) bound = bind();
    EXPECT_TRUE(bound);
    asio::co_spawn(io, [this] { return serve_udp(); }, [](const std::exception_ptr&) {});
    asio::co_spawn(io, [this] { return serve_tcp(); }, [](const std::exception_ptr&) {});
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(udp_.local_endpoint().port());
  }
  void close() {
    udp_.close();
    acceptor_.close();
  }

  // Empty: no answer.
  std::function<std::string(const DnsQuery&, bool over_tcp)> handler;
  std::vector<std::string> asked;

 private:
  // A port that is free for datagrams may be taken for connections.
  bool bind() {
    const auto loopback = asio::ip::address_v4::loopback();
    udp_ = udp::socket(udp_.get_executor(), udp::endpoint(loopback, 0));
    acceptor_ = tcp::acceptor(udp_.get_executor(), tcp::v4());
    boost::system::error_code ec;
    acceptor_.bind(tcp::endpoint(loopback, udp_.local_endpoint().port()), ec);
    if (!ec) acceptor_.listen(tcp::acceptor::max_listen_connections, ec);
    return !ec;
  }
  std::string answer(std::string_view message, bool over_tcp) {
    const auto query = wire::parse_dns_query(message);
    if (!query) return {};
    EXPECT_EQ(query->rcode, DnsRcode::ok);
    asked.push_back(query->name + " " + std::to_string(query->type) + (over_tcp ? " tcp" : ""));
    return handler(*query, over_tcp);
  }
  Task<void> serve_udp() {
    std::array<char, 2048> buffer{};
    for (;;) {
      udp::endpoint from;
      const std::size_t size =
          co_await udp_.async_receive_from(asio::buffer(buffer), from, asio::use_awaitable);
      const std::string out = answer({buffer.data(), size}, false);
      if (!out.empty()) udp_.send_to(asio::buffer(out), from);
    }
  }
  Task<void> serve_tcp() {
    for (;;) {
      auto stream = net::make_tcp_stream(co_await acceptor_.async_accept(asio::use_awaitable));
      wire::DnsUnframer unframer;
      for (bool answered = false; !answered;) {
        auto bytes = co_await stream->read(Deadline::in(10s));
        if (!bytes || bytes->empty()) break;
        std::string_view input = *bytes;
        while (auto message = unframer.next(input)) {
          const std::string out = wire::frame_dns(answer(*message, true));
          (void)co_await stream->write(out, Deadline::in(10s));
          answered = true;
        }
      }
    }
  }

  udp::socket udp_;
  tcp::acceptor acceptor_;
};

std::string build(const DnsQuery& query, const DnsAnswer& answer) {
  return build_dns_answer(query, answer, wire::kMaxDnsMessage);
}

class HostNamesTest : public LoopTest {
 protected:
  void TearDown() override {
    server_.close();
    while (io_.poll_one() > 0) {
    }
  }
  std::unique_ptr<HostNames> names(const HostNamesOptions& options) {
    auto made = HostNames::create(io_.get_executor(), options);
    EXPECT_TRUE(made) << made.error().text();
    return *std::move(made);
  }
  Result<Resolved> resolve(const std::string& name, Family family = Family::v4) {
    const auto host = names({.servers = server_.address()});
    Result<Resolved> out;
    run([&]() -> Task<void> { out = co_await host->resolve(name, family, Deadline::in(10s)); });
    return out;
  }
  static std::vector<std::string> texts(const Resolved& found) {
    std::vector<std::string> out;
    for (const core::IpAddress& address : found.addresses) out.push_back(to_string(address));
    return out;
  }

  TinyServer server_{io_};
};

TEST_F(HostNamesTest, ResolvesBothFamiliesWithTheirTtl) {
  server_.handler = [](const DnsQuery& query, bool) {
    std::string v6("\x20\x01\x0d\xb8", 4);
    v6.resize(16, '\1');
    const bool wants_v6 = query.type == wire::kDnsAaaa;
    return build(query, {.addresses = {wants_v6 ? v6 : kAddress}, .ttl = wants_v6 ? 7U : 42U});
  };
  auto v4 = resolve("a.test");
  ASSERT_TRUE(v4) << v4.error().text();
  EXPECT_THAT(texts(*v4), ElementsAre("192.0.2.7"));
  EXPECT_EQ(v4->ttl, 42s);
  auto v6 = resolve("a.test", Family::v6);
  ASSERT_TRUE(v6) << v6.error().text();
  EXPECT_THAT(texts(*v6), ElementsAre("2001:db8:101:101:101:101:101:101"));
  EXPECT_EQ(v6->ttl, 7s);
  EXPECT_THAT(server_.asked, ElementsAre("a.test 1", "a.test 28"));
}

// a.test is b.test (ttl 5), b.test has an address (ttl 100).
TEST_F(HostNamesTest, FollowsAliasesAndTakesTheShortestTtl) {
  server_.handler = [](const DnsQuery& query, bool) {
    std::string out = build(query, {});
    out[7] = 2;
    out[11] = 0;  // no OPT behind them
    out.resize(12 + query.question.size());
    const std::string alias = wire::dns_name("b.test");
    const auto record = [&out](std::string_view name, std::uint16_t type, std::uint32_t ttl,
                               std::string_view data) {
      out += name;
      put_u16(out, type);
      put_u16(out, 1);
      put_u32(out, ttl);
      put_u16(out, static_cast<std::uint16_t>(data.size()));
      out += data;
    };
    record("\xc0\x0c", 5, 5, alias);
    record(alias, 1, 100, kAddress);
    return out;
  };
  auto found = resolve("a.test");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(texts(*found), ElementsAre("192.0.2.7"));
  EXPECT_EQ(found->ttl, 5s);
}

TEST_F(HostNamesTest, TellsMissingNamesFromMissingAddressesFromFailures) {
  server_.handler = [](const DnsQuery& query, bool) {
    if (query.name == "none.test") return build(query, {.rcode = DnsRcode::no_such_name});
    if (query.name == "half.test") return build(query, {});
    return build(query, {.rcode = DnsRcode::server_failure});
  };
  EXPECT_EQ(resolve("none.test")->status, Resolved::Status::no_name);
  EXPECT_EQ(resolve("half.test")->status, Resolved::Status::no_data);
  EXPECT_FALSE(resolve("broken.test"));
}

TEST_F(HostNamesTest, TriesNoSearchDomain) {
  ::setenv("LOCALDOMAIN", "search.test", 1);
  server_.handler = [](const DnsQuery& query, bool) {
    return build(query, {.rcode = DnsRcode::no_such_name});
  };
  EXPECT_EQ(resolve("short")->status, Resolved::Status::no_name);
  EXPECT_EQ(resolve("two.test")->status, Resolved::Status::no_name);
  ::unsetenv("LOCALDOMAIN");
  EXPECT_THAT(server_.asked, ElementsAre("short 1", "two.test 1"));
}

TEST_F(HostNamesTest, AsksAgainOverTcpWhenTruncated) {
  server_.handler = [](const DnsQuery& query, bool over_tcp) {
    const std::string whole =
        build(query, {.addresses = std::vector<std::string>(80, kAddress), .ttl = 9});
    if (over_tcp) return whole;
    std::string cut = build(query, {});
    cut[2] |= 2;
    return cut;
  };
  auto found = resolve("big.test");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(found->addresses, SizeIs(80));
  EXPECT_THAT(server_.asked, ElementsAre("big.test 1", "big.test 1 tcp"));
}

TEST_F(HostNamesTest, TriesTheNextServer) {
  TinyServer silent(io_);
  silent.handler = [](const DnsQuery&, bool) { return std::string(); };
  server_.handler = [](const DnsQuery& query, bool) {
    return build(query, {.addresses = {kAddress}});
  };
  const auto host =
      names({.servers = silent.address() + "," + server_.address(), .try_timeout = 300ms});
  run([&]() -> Task<void> {
    auto found = co_await host->resolve("a.test", Family::v4, Deadline::in(15s));
    EXPECT_TRUE(found) << found.error().text();
  });
  EXPECT_THAT(silent.asked, Not(IsEmpty()));
  silent.close();
}

TEST_F(HostNamesTest, KeepsToTheDeadline) {
  server_.handler = [](const DnsQuery&, bool) { return std::string(); };
  const auto host = names({.servers = server_.address(), .try_timeout = 60s});
  run([&]() -> Task<void> {
    auto found = co_await host->resolve("a.test", Family::v4, Deadline::in(50ms));
    EXPECT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::timeout);
  });
}

TEST_F(HostNamesTest, ReadsTheHostsFileWithoutAsking) {
  auto found = resolve("localhost");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(texts(*found), ElementsAre("127.0.0.1"));
  EXPECT_THAT(server_.asked, IsEmpty());
}

TEST_F(HostNamesTest, ACancelledLookupLeavesNoSocket) {
  server_.handler = [](const DnsQuery&, bool) { return std::string(); };
  const auto host = names({.servers = server_.address(), .try_timeout = 60s});
  const auto open_files = [] { return sys::list_dir("/proc/self/fd")->size(); };
  const std::size_t before = open_files();
  run([&]() -> Task<void> {
    asio::steady_timer enough(io_, 50ms);
    co_await (host->resolve("a.test", Family::v4, Deadline::in(60s)) ||
              enough.async_wait(asio::use_awaitable));
  });
  EXPECT_THAT(server_.asked, SizeIs(1));
  EXPECT_EQ(open_files(), before);
}

TEST_F(HostNamesTest, EachLookupHasASourcePortOfItsOwn) {
  std::set<std::uint16_t> ports;
  udp::socket listener(io_, udp::endpoint(asio::ip::address_v4::loopback(), 0));
  const auto host =
      names({.servers = "127.0.0.1:" + std::to_string(listener.local_endpoint().port())});
  run([&]() -> Task<void> {
    for (int i = 0; i < 8; ++i) {
      auto question = [&]() -> Task<void> {
        std::array<char, 512> buffer{};
        udp::endpoint from;
        (void)co_await listener.async_receive_from(asio::buffer(buffer), from, asio::use_awaitable);
        ports.insert(from.port());
      };
      co_await (host->resolve("a.test", Family::v4, Deadline::in(10s)) || question());
    }
  });
  EXPECT_GT(ports.size(), 4U);
}

}  // namespace
}  // namespace firebreak::egress
