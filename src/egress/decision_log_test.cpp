#include "egress/decision_log.h"

#include <filesystem>
#include <functional>
#include <thread>

#include <arpa/inet.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "egress/address_test_support.h"
#include "egress/decision_file.h"
#include "egress/firewall.h"
#include "egress/netns.h"
#include "egress/nft.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
namespace asio = net::asio;
using core::EgressLayer;
using core::EgressWord;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = Decision::Kind;

constexpr auto kUnmatched = static_cast<std::uint32_t>(EgressWord::unmatched);

PacketHead head(std::string_view to, std::uint16_t port, std::uint16_t from = 40000) {
  return {ip("10.0.0.2"), ip(to), core::kTcp, from, port};
}

LoggedPacket denied(std::string_view to, std::uint16_t port) {
  return {"d policy", kUnmatched, head(to, port)};
}

NameEvent resolved(const std::string& name, const std::vector<std::string>& addresses) {
  NameEvent out{.name = name, .type = 1, .allowed = true, .label = {EgressLayer::policy, 1}};
  for (const std::string& address : addresses) out.addresses.push_back(ip(address));
  return out;
}

class DecisionLogTest : public testing::Test {
 protected:
  void TearDown() override {
    log_.reset();
    settle();
    (void)sys::remove_tree(directory_);
  }
  void open(const DecisionLogLimits& limits = {}) {
    log_.reset();
    settle();
    auto made = DecisionLog::open(io_.get_executor(), clock_,
                                  {.directory = directory_,
                                   .guest_addresses = {ip("10.0.0.2"), ip("127.0.0.1")},
                                   .own_addresses = {ip("10.0.0.1")}},
                                  limits);
    ASSERT_TRUE(made) << made.error().text();
    log_ = *std::move(made);
  }
  void settle() {
    while (io_.poll() > 0) {
    }
  }
  std::vector<Decision> written() const { return recent_decisions(directory_, 100'000, {}); }
  std::vector<Decision> flushed() {
    EXPECT_TRUE(log_->flush());
    return written();
  }
  // Until the condition holds.
  void run_until(const std::function<bool()>& holds) {
    const Deadline limit = Deadline::in(20s);
    while (!holds() && !limit.passed()) io_.run_one_for(20ms);
    EXPECT_TRUE(holds());
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> busy_{io_.get_executor()};
  core::SystemClock clock_;
  std::string directory_ =
      std::filesystem::temp_directory_path() / ("fb-log-" + sys::random_hex(6));
  std::unique_ptr<DecisionLog> log_;
};

TEST_F(DecisionLogTest, AConnectionIsTiedToItsNameAndRule) {
  open();
  log_->named(resolved("a.test", {"192.0.2.1", "192.0.2.2"}));
  log_->add(LoggedPacket{"a policy", 3, head("192.0.2.2", 443)});
  log_->named(resolved("b.test", {"192.0.2.2"}));  // the address is another's meanwhile
  log_->add(EndedConnection{head("192.0.2.2", 443), 100, 2000});
  log_->add(EndedConnection{head("192.0.2.2", 80), 1, 2});  // nobody saw it begin
  log_->add(EndedConnection{head("10.0.0.1", 53), 1, 2});   // to the resolver
  const auto all = flushed();
  ASSERT_THAT(all, SizeIs(5));
  EXPECT_EQ(all[0].kind, Kind::name);
  EXPECT_THAT(all[0].addresses, ElementsAre(ip("192.0.2.1"), ip("192.0.2.2")));
  EXPECT_EQ(all[1].kind, Kind::connect);
  EXPECT_EQ(all[1].name, "a.test");
  EXPECT_EQ(all[1].rule, "policy:3");
  EXPECT_EQ(all[3].kind, Kind::end);
  EXPECT_EQ(all[3].name, "a.test");
  EXPECT_EQ(all[3].rule, "policy:3");
  EXPECT_EQ(all[3].bytes_out, 100U);
  EXPECT_EQ(all[3].bytes_in, 2000U);
  EXPECT_EQ(all[4].name, "b.test");
  EXPECT_EQ(all[4].rule, "");
  EXPECT_EQ(log_->summary().reached().at({"a.test", core::kTcp, 443}).bytes_in, 2000U);
}

// The gate says what became of a connection; the kernel, when it ended, and the gate's own as well.
TEST_F(DecisionLogTest, AConnectionThroughTheTlsGateIsOneOfTheGuest) {
  open();
  log_->named(resolved("a.test", {"192.0.2.1"}));
  log_->named(resolved("b.test", {"192.0.2.1"}));
  PacketHead good = head("192.0.2.1", 443);
  good.source_port = 1001;
  PacketHead bad = good;
  bad.source_port = 1002;
  PacketHead own = good;
  own.source = ip("100.127.0.1");
  const core::EgressLabel denied = core::label(core::EgressLayer::policy, EgressWord::server_name);
  log_->asked({good, "a.test", true, {core::EgressLayer::policy, 1}, {}});
  log_->asked({bad, "c.test", false, denied, "TLS asks for c.test"});
  for (const PacketHead& one : {own, bad, good}) log_->add(EndedConnection{one, 100, 2000});
  log_->asked({good, "a.test", true, {core::EgressLayer::policy, 1}, {}});
  log_->asked({good, "a.test", false, denied, "the policy has changed"});
  log_->add(EndedConnection{good, 1, 2});
  const auto all = flushed();
  ASSERT_THAT(all, SizeIs(6));
  EXPECT_EQ(all[2].name, "a.test");
  EXPECT_EQ(all[2].rule, "policy:1");
  EXPECT_EQ(all[2].count, 2U);
  EXPECT_EQ(all[3].name, "c.test");
  EXPECT_EQ(all[3].rule, "policy:server-name");
  EXPECT_EQ(all[3].reason, "TLS asks for c.test");
  EXPECT_EQ(all[4].kind, Kind::end);
  EXPECT_EQ(all[4].name, "a.test");
  EXPECT_EQ(all[4].bytes_in, 2002U) << "of one that was cut later, too";
  EXPECT_EQ(all[5].reason, "the policy has changed");
}

TEST_F(DecisionLogTest, DenialsSayWhy) {
  open();
  log_->add(denied("192.0.2.9", 25));
  log_->add(LoggedPacket{"d always", static_cast<std::uint32_t>(EgressWord::link_local),
                         head("169.254.169.254", 80)});
  log_->add(LoggedPacket{"something else", 1, head("192.0.2.9", 1)});
  log_->named({.name = "evil.test",
               .type = 1,
               .label = core::label(EgressLayer::policy, EgressWord::unmatched),
               .reason = "policy web has no rule for evil.test; add one"});
  const auto all = flushed();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_FALSE(all[0].allowed);
  EXPECT_EQ(all[0].rule, "policy:unmatched");
  EXPECT_EQ(all[0].reason, "no rule of the policy allows it; add one");
  EXPECT_EQ(all[1].rule, "always:link-local");
  EXPECT_EQ(all[2].reason, "policy web has no rule for evil.test; add one");
  EXPECT_THAT(log_->summary().denials(), SizeIs(3));
}

TEST_F(DecisionLogTest, TheSameWithinASecondIsOneRecord) {
  open();
  for (int i = 0; i < 500; ++i) log_->add(denied("192.0.2.9", 25));
  log_->add(denied("192.0.2.9", 26));
  EXPECT_THAT(written(), IsEmpty());
  run_until([&] { return !written().empty(); });  // by itself
  const auto all = written();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].count, 500U);
  EXPECT_EQ(all[1].count, 1U);
  EXPECT_EQ(log_->summary().denied(), 501U);
}

TEST_F(DecisionLogTest, AFloodOfDenialsIsBoundedAndHidesNothingElse) {
  open({.records_per_second = 20});
  for (std::uint16_t port = 1; port <= 1000; ++port) log_->add(denied("192.0.2.9", port));
  log_->add(LoggedPacket{"a policy", 1, head("192.0.2.1", 443)});
  const auto all = flushed();
  ASSERT_THAT(all, SizeIs(22));
  EXPECT_TRUE(all[20].allowed);
  EXPECT_EQ(all[21].kind, Kind::more);
  EXPECT_EQ(all[21].count, 980U);
  EXPECT_EQ(log_->summary().denied(), 1000U) << "they are counted";
  log_->add(denied("192.0.2.9", 2000));
  EXPECT_THAT(flushed(), SizeIs(23)) << "the next second has room again";
}

TEST_F(DecisionLogTest, GoesOnAfterARestart) {
  open();
  log_->named(resolved("a.test", {"192.0.2.1"}));
  log_->add(LoggedPacket{"a policy", 1, head("192.0.2.1", 443)});
  open();  // closed in order
  EXPECT_EQ(log_->summary().allowed(), 1U);
  EXPECT_EQ(log_->name_of(ip("192.0.2.1")), "a.test");
  log_->add(LoggedPacket{"a policy", 1, head("192.0.2.1", 80)});
  ASSERT_THAT(flushed(), SizeIs(3));
  const std::string crashed = directory_ + "-crash";  // a copy from before the summary was kept
  std::filesystem::copy(directory_, crashed);
  auto other = DecisionLog::open(io_.get_executor(), clock_, {.directory = crashed});
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->summary().allowed(), 2U);
  (*other)->add(denied("192.0.2.9", 25));
  ASSERT_TRUE((*other)->flush());
  EXPECT_EQ(recent_decisions(crashed, 1, {}).at(0).number, 4U);
  other->reset();
  EXPECT_TRUE(sys::remove_tree(crashed));
}

TEST_F(DecisionLogTest, RemembersOnlySoManyNames) {
  open({.names = 2});
  log_->named(resolved("a.test", {"192.0.2.1"}));
  log_->named(resolved("b.test", {"192.0.2.2"}));
  log_->named(resolved("a.test", {"192.0.2.1"}));
  log_->named(resolved("c.test", {"192.0.2.3"}));
  EXPECT_EQ(log_->name_of(ip("192.0.2.1")), "a.test");
  EXPECT_EQ(log_->name_of(ip("192.0.2.2")), "") << "used longest ago";
  EXPECT_EQ(log_->name_of(ip("192.0.2.3")), "c.test");
}

// A namespace whose loopback plays guest and world.
class KernelLogTest : public DecisionLogTest {
 protected:
  void SetUp() override {
    Result<> result;
    std::thread([&] { result = enter(); }).join();
    ASSERT_TRUE(result) << "needs root: " << result.error().text();
    auto firewall = Firewall::open(netns_.get(), clock_);
    ASSERT_TRUE(firewall) << firewall.error().text();
    firewall_ = *std::move(firewall);
    in_namespace([&]() -> Result<> {
      FB_TRY_ASSIGN(sockets_, open_netfilter_sockets());
      return {};
    });
    const auto loaded = NftRunner(netns_.get()).run(R"(table inet test {
      chain out {
        type filter hook output priority filter; policy accept;
        tcp sport { 80, 81 } accept
        ct state established accept
        ip daddr 127.0.0.2 tcp dport 80 meta mark set 3 log prefix "a policy" group 1
        ip6 daddr ::1 udp dport 443 meta mark set 0x1001 log prefix "d policy" group 1 reject
        ip daddr 127.0.0.2 tcp dport 81 meta mark set 0x1001 log prefix "d policy" group 1 reject with tcp reset
      }
    })");
    ASSERT_TRUE(loaded) << loaded.error().text();
  }

  Result<> enter() {
    if (::unshare(CLONE_NEWNET) != 0) return fail_errno("unshare");
    FB_TRY_ASSIGN(netns_, sys::open("/proc/thread-self/ns/net", O_RDONLY));
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq up{};
    std::strncpy(up.ifr_name, "lo", IFNAMSIZ - 1);
    up.ifr_flags = IFF_UP;
    if (::ioctl(fd.get(), SIOCSIFFLAGS, &up) != 0) return fail_errno("raising lo");
    return {};
  }
  void in_namespace(const std::function<Result<>()>& work) {
    const auto done = egress::in_namespace(netns_.get(), work);
    ASSERT_TRUE(done) << done.error().text();
  }

  static sockaddr_in at(std::uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.2", &out.sin_addr);
    return out;
  }
  // errno of connect; 0: connected, and sent so many bytes.
  static int connect_to(std::uint16_t port, std::size_t bytes) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = at(port);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return errno;
    return sys::write_all(fd.get(), std::string(bytes, 'x')) ? 0 : EIO;
  }
  static Result<UniqueFd> listen_on(std::uint16_t port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = at(port);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 ||
        ::listen(fd.get(), 8) != 0)
      return fail_errno("listening");
    return fd;
  }

  UniqueFd netns_;
  std::unique_ptr<Firewall> firewall_;
  NetfilterSockets sockets_;
};

TEST_F(KernelLogTest, TellsDenialsConnectionsAndTheirBytes) {
  open();
  log_->named(resolved("a.test", {"127.0.0.2"}));
  ASSERT_TRUE(log_->watch(std::move(sockets_)));
  in_namespace([&]() -> Result<> {
    FB_TRY_ASSIGN(const UniqueFd listener, listen_on(80));
    EXPECT_EQ(connect_to(80, 5000), 0);
    EXPECT_EQ(connect_to(81, 0), ECONNREFUSED);
    const UniqueFd datagram(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 to{.sin6_family = AF_INET6, .sin6_port = htons(443)};
    inet_pton(AF_INET6, "::1", &to.sin6_addr);
    ::sendto(datagram.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    return {};
  });
  run_until([&] { return log_->summary().denied() == 2 && log_->summary().allowed() == 1; });
  ASSERT_TRUE(firewall_->forget_connections());
  const Destination site{"a.test", core::kTcp, 80};
  run_until([&] { return log_->summary().reached().at(site).bytes_out > 0; });

  const auto all = flushed();
  const auto find = [&](Kind kind, std::uint16_t port) {
    const auto found = std::ranges::find_if(
        all, [&](const Decision& one) { return one.kind == kind && one.port == port; });
    EXPECT_NE(found, all.end());
    return found == all.end() ? Decision{} : *found;
  };
  EXPECT_EQ(find(Kind::connect, 80).rule, "policy:3");
  EXPECT_TRUE(find(Kind::connect, 80).allowed);
  EXPECT_EQ(find(Kind::connect, 81).rule, "policy:unmatched");
  EXPECT_EQ(find(Kind::connect, 81).name, "a.test");
  EXPECT_EQ(find(Kind::connect, 443).address, ip("::1"));
  EXPECT_EQ(find(Kind::connect, 443).protocol, core::kUdp);
  const Decision end = find(Kind::end, 80);
  EXPECT_EQ(end.rule, "policy:3");
  EXPECT_EQ(end.name, "a.test");
  EXPECT_GE(end.bytes_out, 5000U);
  EXPECT_GT(end.bytes_in, 0U);
}

TEST_F(KernelLogTest, HasOneReader) {
  const auto second = egress::in_namespace(netns_.get(), []() -> Result<> {
    FB_TRY(open_netfilter_sockets());
    return {};
  });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict) << second.error().text();
  sockets_ = {};
  in_namespace([]() -> Result<> {  // as after a restart: rules are there and log meanwhile
    FB_TRY(open_netfilter_sockets());
    return {};
  });
}

TEST_F(KernelLogTest, UnwatchReadsWhatWaits) {
  open();
  ASSERT_TRUE(log_->watch(std::move(sockets_)));
  in_namespace([&]() -> Result<> {
    for (int i = 0; i < 150; ++i) EXPECT_EQ(connect_to(81, 0), ECONNREFUSED);
    return {};
  });
  log_->unwatch();  // the loop has not run since
  EXPECT_EQ(log_->summary().denied(), 150U);
  settle();
}

TEST_F(KernelLogTest, AnotherNamespaceMayFollow) {
  open();
  ASSERT_TRUE(log_->watch(std::move(sockets_)));
  const UniqueFd before = std::move(netns_);
  settle();
  SetUp();
  ASSERT_TRUE(log_->watch(std::move(sockets_)));
  settle();
  in_namespace([&]() -> Result<> {
    EXPECT_EQ(connect_to(81, 0), ECONNREFUSED);
    return {};
  });
  run_until([&] { return log_->summary().denied() == 1; });
}

}  // namespace
}  // namespace firebreak::egress
