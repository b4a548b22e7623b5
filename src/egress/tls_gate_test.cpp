// The gate on loopback: a guest, a server, and a judge who knows one name.
#include "egress/tls_gate.h"

#include <map>
#include <set>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "egress/address_test_support.h"
#include "egress/loop_test_support.h"
#include "wire/client_hello_test_support.h"

namespace firebreak::egress {
namespace {

using boost::system::error_code;
using net::Task;
using net::asio::ip::tcp;
using testing::HasSubstr;

// What a server answers that wants no second hello, and one that does.
const std::string kAnswer = wire::tls_record(22, wire::tls_message(2, std::string(38, 's')));
const std::string kRetry = wire::tls_record(
    22, wire::tls_message(2, std::string("\x03\x03"
                                         "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65"
                                         "\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2"
                                         "\xc8\xa8\x33\x9c",
                                         34)));

class TlsGateTest : public LoopTest {
 protected:
  void TearDown() override {
    gate_.reset();
    while (io_.poll_one() > 0) {
    }
  }

  void serve(const TlsGateLimits& limits = {}) {
    tcp::acceptor listener(io_, tcp::endpoint(net::asio::ip::address_v4::loopback(), 0));
    at_ = listener.local_endpoint();
    std::vector<UniqueFd> listeners;
    listeners.emplace_back(listener.release());
    TlsGateHooks hooks;
    hooks.destination = [this](int) -> Result<TlsDestination> {
      return TlsDestination{ip("127.0.0.1"), server_.local_endpoint().port()};
    };
    hooks.judge = [this](const core::IpAddress& to, const std::string& name) {
      EXPECT_EQ(to, ip("127.0.0.1"));
      return ServerNameVerdict{
          allowed_.contains(name), {core::EgressLayer::policy, 7}, "not " + name};
    };
    hooks.socket = [](bool v6) -> Task<Result<UniqueFd>> {
      co_return UniqueFd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    };
    hooks.decided = [this](const TlsEvent& event) { events_.push_back(event); };
    auto made = TlsGate::start(io_.get_executor(), std::move(listeners), std::move(hooks), limits);
    ASSERT_TRUE(made) << made.error().text();
    gate_ = *std::move(made);
  }

  Task<tcp::socket> connect() {
    tcp::socket socket(io_);
    co_await socket.async_connect(at_, net::asio::use_awaitable);
    socket.set_option(tcp::no_delay(true));
    co_return socket;
  }
  static Task<void> send(tcp::socket& to, std::string bytes) {
    co_await net::asio::async_write(to, net::asio::buffer(bytes), net::asio::use_awaitable);
  }
  static Task<std::string> receive(tcp::socket& from, std::size_t size) {
    std::string out(size, '\0');
    co_await net::asio::async_read(from, net::asio::buffer(out), net::asio::use_awaitable);
    co_return out;
  }
  // "end", "reset", or what came instead.
  static Task<std::string> ending(tcp::socket& from) {
    std::string out(100, '\0');
    auto [ec, size] = co_await from.async_read_some(net::asio::buffer(out), net::kNoThrow);
    if (ec == net::asio::error::eof) co_return "end";
    if (ec == net::asio::error::connection_reset) co_return "reset";
    co_return ec ? ec.message() : out.substr(0, size);
  }
  // What becomes of a guest that sends this.
  std::string fate(const std::string& bytes) {
    std::string out;
    run([&]() -> Task<void> {
      tcp::socket guest = co_await connect();
      co_await send(guest, bytes);
      out = co_await ending(guest);
    });
    return out;
  }
  struct Pair {
    tcp::socket guest;
    tcp::socket server;
  };
  // A guest that has been let through, and the server that it has reached.
  Task<Pair> through(std::string hello) {
    tcp::socket guest = co_await connect();
    co_await send(guest, hello);
    tcp::socket server = co_await server_.async_accept(net::asio::use_awaitable);
    EXPECT_EQ(co_await receive(server, hello.size()), hello);
    co_return Pair{std::move(guest), std::move(server)};
  }

  tcp::acceptor server_{io_, tcp::endpoint(net::asio::ip::address_v4::loopback(), 0)};
  tcp::endpoint at_;
  std::set<std::string> allowed_{"ok.test"};
  std::vector<TlsEvent> events_;
  std::unique_ptr<TlsGate> gate_;
};

const std::string kHello = wire::client_hello("ok.test");

TEST_F(TlsGateTest, AnAllowedNameIsPassedOnToTheByte) {
  serve();
  run([&]() -> Task<void> {
    tcp::socket guest = co_await connect();
    for (const char byte : kHello) co_await send(guest, std::string(1, byte));
    tcp::socket server = co_await server_.async_accept(net::asio::use_awaitable);
    EXPECT_EQ(co_await receive(server, kHello.size()), kHello);
    co_await send(server, kAnswer);
    EXPECT_EQ(co_await receive(guest, kAnswer.size()), kAnswer);
    const std::string much(3'000'000, 'x');
    for (tcp::socket* from : {&guest, &server}) {
      tcp::socket* to = from == &guest ? &server : &guest;
      net::asio::co_spawn(io_, send(*from, much), [](const std::exception_ptr&) {});
      EXPECT_EQ(co_await receive(*to, much.size()), much);
    }
    // One half ends before the other.
    guest.shutdown(tcp::socket::shutdown_send);
    EXPECT_EQ(co_await ending(server), "end");
    co_await send(server, "last words");
    server.close();
    EXPECT_EQ(co_await receive(guest, 10), "last words");
    EXPECT_EQ(co_await ending(guest), "end");
    while (gate_->connections() > 0) co_await net::asio::post(io_, net::asio::use_awaitable);
    const TlsEvent& event = events_.at(0);
    EXPECT_EQ(event.head.source_port, guest.local_endpoint().port());
    EXPECT_EQ(event.head.port, server_.local_endpoint().port());
    EXPECT_EQ(event.head.protocol, core::kTcp);
    EXPECT_EQ(event.name, "ok.test");
    EXPECT_TRUE(event.allowed);
    EXPECT_EQ(to_string(event.label), "policy:7");
  });
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(TlsGateTest, EverythingElseIsResetAndSaysWhy) {
  serve();
  const std::vector<std::pair<std::string, std::string>> cases{
      {wire::client_hello("bad.test"), "policy:7 bad.test: not bad.test"},
      {wire::tls_records(wire::hello_message("")), "policy:no-server-name : the ClientHello names"},
      {"GET / HTTP/1.1\r\n\r\n", "policy:not-tls : what came is not TLS"},
      {wire::tls_record(22, std::string("\x01\xff\xff\xff", 4)),
       "policy:not-tls : the ClientHello"},
  };
  for (const auto& [bytes, want] : cases) {
    EXPECT_EQ(fate(bytes), "reset") << want;
    ASSERT_FALSE(events_.empty()) << want;
    const TlsEvent event = events_.back();
    EXPECT_FALSE(event.allowed);
    EXPECT_THAT(to_string(event.label) + " " + event.name + ": " + event.reason, HasSubstr(want));
  }
  EXPECT_EQ(events_.size(), cases.size());
  server_.non_blocking(true);
  error_code ec;
  (void)server_.accept(ec);
  EXPECT_EQ(ec, net::asio::error::would_block) << "the server has not heard of it";
}

TEST_F(TlsGateTest, AHelloMustComeInTimeAndWhole) {
  serve({.hello_within = std::chrono::seconds(0)});
  EXPECT_EQ(fate(""), "reset");
  EXPECT_EQ(to_string(events_.at(0).label), "policy:not-tls");
  serve();
  run([&]() -> Task<void> {
    tcp::socket guest = co_await connect();
    co_await send(guest, kHello.substr(0, 20));
    guest.shutdown(tcp::socket::shutdown_send);
    EXPECT_EQ(co_await ending(guest), "reset");
  });
  EXPECT_EQ(events_.back().reason, "no ClientHello came");
}

TEST_F(TlsGateTest, AServerThatIsNotThereIsAReset) {
  serve();
  server_.close();
  tcp::acceptor nobody(io_, tcp::endpoint(net::asio::ip::address_v4::loopback(), 0));
  server_ = std::move(nobody);
  const auto port = server_.local_endpoint();
  server_.close();
  server_ = tcp::acceptor(io_, tcp::v4());
  server_.bind(port);  // bound, and not listening
  EXPECT_EQ(fate(kHello), "reset");
  EXPECT_TRUE(events_.at(0).allowed);
}

// Servers believe the name in the second hello, so it must be the first one's.
TEST_F(TlsGateTest, ASecondHelloCannotAskForAnotherName) {
  serve();
  const std::string between = wire::tls_record(20, "\x01");
  for (const std::string name : {"OK.test", "bad.test", ""}) {
    // With the first, before the server has said anything: held back until it has.
    for (const bool at_once : {false, true}) {
      const std::string second =
          between +
          (name.empty() ? wire::tls_records(wire::hello_message("")) : wire::client_hello(name));
      run([&]() -> Task<void> {
        tcp::socket guest = co_await connect();
        co_await send(guest, at_once ? kHello + second : kHello);
        tcp::socket server = co_await server_.async_accept(net::asio::use_awaitable);
        EXPECT_EQ(co_await receive(server, kHello.size()), kHello);
        co_await send(server, kRetry);
        EXPECT_EQ(co_await receive(guest, kRetry.size()), kRetry);
        if (!at_once) co_await send(guest, second);
        if (name == "OK.test") {
          EXPECT_EQ(co_await receive(server, second.size()), second);
          co_await send(server, "on");
          EXPECT_EQ(co_await receive(guest, 2), "on");
        } else {
          EXPECT_EQ(co_await ending(server), "reset");
          EXPECT_EQ(co_await ending(guest), "reset");
          EXPECT_FALSE(events_.back().allowed);
          EXPECT_EQ(to_string(events_.back().label),
                    name.empty() ? "policy:no-server-name" : "policy:server-name");
        }
      });
    }
  }
}

TEST_F(TlsGateTest, NothingFollowsAHelloBeforeItsAnswer) {
  serve();
  run([&]() -> Task<void> {
    tcp::socket guest = co_await connect();
    co_await send(guest, kHello + "early");
    tcp::socket server = co_await server_.async_accept(net::asio::use_awaitable);
    EXPECT_EQ(co_await receive(server, kHello.size()), kHello);
    for (int i = 0; i < 100; i++) co_await net::asio::post(io_, net::asio::use_awaitable);
    EXPECT_EQ(server.available(), 0U);
    co_await send(server, kAnswer);
    EXPECT_EQ(co_await receive(server, 5), "early");
  });
}

TEST_F(TlsGateTest, AnotherPolicyEndsWhatItDoesNotAllow) {
  allowed_ = {"ok.test", "old.test"};
  serve();
  run([&]() -> Task<void> {
    Pair kept = co_await through(kHello);
    Pair cut = co_await through(wire::client_hello("old.test"));
    allowed_ = {"ok.test"};
    gate_->policy_changed();
    EXPECT_EQ(co_await ending(cut.guest), "reset");
    EXPECT_EQ(co_await ending(cut.server), "reset");
    EXPECT_EQ(events_.back().name, "old.test");
    EXPECT_FALSE(events_.back().allowed);
    co_await send(kept.server, kAnswer);
    EXPECT_EQ(co_await receive(kept.guest, kAnswer.size()), kAnswer);
    EXPECT_EQ(gate_->connections(), 1U);
  });
  EXPECT_EQ(events_.size(), 3U);
}

TEST_F(TlsGateTest, ConnectionsAreLimitedAndEndWithTheGate) {
  serve({.connections = 2});
  run([&]() -> Task<void> {
    Pair first = co_await through(kHello);
    Pair second = co_await through(kHello);
    tcp::socket third = co_await connect();
    EXPECT_EQ(co_await ending(third), "reset");
    EXPECT_EQ(to_string(events_.back().label), "policy:connection-cap");
    co_await send(first.server, kAnswer);
    EXPECT_EQ(co_await receive(first.guest, kAnswer.size()), kAnswer);
    first.guest.close();
    first.server.close();
    while (gate_->connections() > 1) co_await net::asio::post(io_, net::asio::use_awaitable);
    Pair fourth = co_await through(kHello);
    co_await gate_->close(Deadline::in(std::chrono::seconds(10)));
    EXPECT_EQ(co_await ending(second.guest), "reset");
    EXPECT_EQ(co_await ending(fourth.server), "reset");
    EXPECT_EQ(gate_->connections(), 0U);
    tcp::socket late(io_);
    auto [ec] = co_await late.async_connect(at_, net::kNoThrow);
    EXPECT_EQ(ec, net::asio::error::connection_refused);
  });
}

TEST(ServerName, MustBeAllowedAndGivenForTheAddress) {
  const auto read = core::egress_policy_from_json(
      R"({"name":"p","sniCheck":true,"rules":[{"action":"allow","domain":"*.ok.test"},
          {"action":"deny","domain":"no.ok.test"},
          {"action":"allow","domain":"other.test","ports":[8443]}]})");
  ASSERT_TRUE(read) << read.error().text();
  const core::EgressStack stack{core::internet_egress(), *read, {}};
  const auto judged = [&](const core::EgressStack& by, std::string_view name, bool given) {
    const ServerNameVerdict verdict = judge_server_name(by, ip("192.0.2.1"), name, given);
    EXPECT_EQ(verdict.reason.empty(), verdict.allowed);
    return (verdict.allowed ? "a " : "d ") + to_string(verdict.label);
  };
  EXPECT_EQ(judged(stack, "A.ok.test", true), "a policy:1");
  EXPECT_EQ(judged(stack, "a.ok.test", false), "d policy:server-name");
  EXPECT_EQ(judged(stack, "no.ok.test", true), "d policy:2");
  EXPECT_EQ(judged(stack, "evil.test", true), "d policy:server-name");
  EXPECT_EQ(judged(stack, "other.test", true), "d policy:server-name") << "not on this port";
  EXPECT_EQ(judged(stack, "192.0.2.1", true), "d policy:server-name");
  EXPECT_EQ(judged(stack, "a..b", true), "d always:bad-name");
  // Whoever wants the check: both have to allow the name.
  core::EgressStack narrowed = stack;
  narrowed.maximum = *core::egress_policy_from_json(
      R"({"name":"m","rules":[{"action":"allow","domain":"a.ok.test"}]})");
  EXPECT_EQ(judged(narrowed, "a.ok.test", true), "a policy:1");
  EXPECT_EQ(judged(narrowed, "b.ok.test", true), "d maximum:server-name");
}

}  // namespace
}  // namespace firebreak::egress
