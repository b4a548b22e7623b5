// All networks of a host, in a namespace that plays it; the test plays the guests and the world.
#include "egress/networks.h"

#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/links.h"
#include "base/sys.h"
#include "base/text.h"
#include "egress/address_test_support.h"
#include "egress/host_test_support.h"
#include "egress/netns.h"
#include "egress/packet_test_support.h"
#include "egress/plan.h"

namespace firebreak::egress {
namespace {

constexpr std::size_t kMany = 50;
constexpr std::size_t kUdpHeader = 8;
constexpr const char* kHost = "198.51.100.2";
constexpr Mac kWorldMac{2, 0, 0, 0, 0, 9};
constexpr Mac kHostMac{2, 0, 0, 0, 0, 8};

class NoNames final : public Upstream {
 public:
  net::Task<Result<Resolved>> resolve(std::string, Family, Deadline) override {
    co_return Resolved{.status = Resolved::Status::no_name};
  }
};

struct Datagram {
  std::uint16_t source_port = 0;
  std::size_t size = 0;  // tells them apart
};

// The next UDP datagram of IPv4 there that is for this port.
std::optional<Datagram> datagram_for(int tap, std::uint16_t port) {
  constexpr std::size_t kUdpAt = 14 + 20;
  std::array<char, 4096> frame{};
  for (;;) {
    const ssize_t size = ::read(tap, frame.data(), frame.size());
    if (size <= 0) return std::nullopt;
    const char* udp = frame.data() + kUdpAt;
    if (static_cast<std::size_t>(size) < kUdpAt + kUdpHeader ||
        get_u16(frame.data() + 12) != 0x0800 || frame[14 + 9] != core::kUdp ||
        get_u16(udp + 2) != port)
      continue;
    return Datagram{get_u16(udp), get_u16(udp + 4) - kUdpHeader};
  }
}

// A host whose only way out is a tap, of which the test has the other end.
Result<UniqueFd> connect_host() {
  FB_TRY_ASSIGN(const Links links, Links::open());
  FB_TRY_ASSIGN(UniqueFd world, open_tap("world"));
  FB_TRY(links.set_mac("world", kHostMac));
  FB_TRY(links.add_address("world", {kHost, 24}));
  FB_TRY(links.set_up("world"));
  FB_TRY(links.add_neighbour("world", "198.51.100.1", kWorldMac));
  FB_TRY(links.add_default_route("198.51.100.1", "world"));
  return world;
}

Packet datagram(std::size_t size) {
  Packet out;
  out.protocol = core::kUdp;
  out.payload = size;
  return out;
}

void send(int tap, const Packet& packet) {
  const std::string frame = frames(packet).at(0);
  EXPECT_EQ(::write(tap, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
}

Deadline in_half_a_minute() {
  return Deadline::in(std::chrono::seconds(30));
}

core::EgressStack internet() {
  return {core::internet_egress(), core::internet_egress(), {}};
}

net::Task<Result<>> admit(Networks& networks, std::string id, core::EgressStack stack) {
  const Deadline deadline = in_half_a_minute();
  FB_CO_TRY_ASSIGN(Networks::Admission admission, co_await networks.admit(id, deadline));
  co_return co_await admission.decide_by(std::move(stack), deadline);
}

Packet from_guest(std::size_t size) {
  Packet out = datagram(size);
  out.source = ip(kGuest4);
  out.destination = ip("203.0.113.10");
  out.source_mac = kGuestMac;
  out.destination_mac = kGatewayMac;
  out.source_port = 5555;
  out.port = 4000;
  return out;
}

class ManyNetworks {
 public:
  void open(bool ipv6 = true) {
    auto world = connect_host();
    ASSERT_TRUE(world) << world.error().text();
    world_ = *std::move(world);
    auto made = Networks::open({.data_dir = directory_, .upstream = &names_, .ipv6 = ipv6},
                               io_.get_executor(), pool_, clock_, log_);
    ASSERT_TRUE(made) << made.error().text();
    networks_ = *std::move(made);
  }
  ~ManyNetworks() {
    for (std::size_t i = 0; i < taps_.size(); ++i) {
      run(networks_->dismiss(id(i), Deadline::in(std::chrono::seconds(10))));
      EXPECT_TRUE(networks_->detach(id(i)));
    }
    EXPECT_TRUE(found_networks(directory_).value().empty());
    networks_.reset();
    pool_.join();
    std::filesystem::remove_all(directory_);
  }
  ManyNetworks() = default;
  ManyNetworks(const ManyNetworks&) = delete;
  ManyNetworks& operator=(const ManyNetworks&) = delete;

  void add_one() {
    ASSERT_NO_FATAL_FAILURE(plug_one());
    run(admit(id(taps_.size() - 1)));
  }
  void plug_one() {
    UniqueFd tap;
    const auto attached =
        networks_->attach(id(taps_.size()), [&tap](const std::string& device) -> Result<> {
          FB_TRY_ASSIGN(tap, open_tap(device));
          return {};
        });
    ASSERT_TRUE(attached) << attached.error().text();
    taps_.push_back(std::move(tap));
  }
  // Inside its namespace.
  std::vector<std::string> addresses(std::size_t i) const {
    std::vector<std::string> found;
    const auto netns = open_namespace(directory_ + "/netns/" + id(i));
    EXPECT_TRUE(in_namespace(netns.value().get(), [&]() -> Result<> {
      FB_TRY_ASSIGN(const Links links, Links::open());
      FB_TRY_ASSIGN(found, links.addresses());
      return {};
    }));
    return found;
  }
  Networks& networks() { return *networks_; }
  net::asio::io_context& io() { return io_; }
  static std::string id(std::size_t i) { return "machine-" + std::to_string(i); }

  int tap(std::size_t i) const { return taps_[i].get(); }
  int world() const { return world_.get(); }

  void run(net::Task<void> task) {
    bool ended = false;
    net::asio::co_spawn(io_, std::move(task), [&](const std::exception_ptr&) { ended = true; });
    io_.restart();  // it may have had nothing to do meanwhile
    while (!ended) io_.run_one();
  }

 private:
  net::Task<void> admit(std::string machine) {
    const auto admitted = co_await egress::admit(*networks_, machine, internet());
    EXPECT_TRUE(admitted) << admitted.error().text();
  }

  const std::string directory_ =
      std::filesystem::temp_directory_path() / ("firebreak-networks-" + sys::random_hex(4));
  NoNames names_;
  core::SystemClock clock_;
  obs::Log log_{STDERR_FILENO, obs::LogFormat::text, obs::Level::error};
  net::asio::io_context io_;
  net::asio::thread_pool pool_{2};
  UniqueFd world_;
  std::unique_ptr<Networks> networks_;
  std::vector<UniqueFd> taps_;
};

// All guests have one address and use one port; the world answers each, and each hears its own.
TEST(NetworksTest, ManyWithOneAddressDoNotHearEachOther) {
  in_new_host([] {
    ManyNetworks many;
    ASSERT_NO_FATAL_FAILURE(many.open());
    for (std::size_t i = 0; i < kMany; ++i) ASSERT_NO_FATAL_FAILURE(many.add_one());
    for (std::size_t i = 0; i < kMany; ++i) {
      send(many.tap(i), from_guest(10 + i));
    }
    const Deadline limit = Deadline::in(std::chrono::seconds(20));
    std::set<std::size_t> arrived;
    while (arrived.size() < kMany && !limit.passed()) {
      const auto got = datagram_for(many.world(), 4000);
      if (!got) continue;
      arrived.insert(got->size);
      Packet answer = datagram(got->size);
      answer.source = ip("203.0.113.10");
      answer.destination = ip(kHost);
      answer.source_mac = kWorldMac;
      answer.destination_mac = kHostMac;
      answer.source_port = 4000;
      answer.port = got->source_port;
      send(many.world(), answer);
    }
    EXPECT_EQ(arrived.size(), kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
      std::optional<Datagram> heard;
      while (!heard && !limit.passed()) heard = datagram_for(many.tap(i), 5555);
      ASSERT_TRUE(heard) << i;
      EXPECT_EQ(heard->size, 10 + i) << "somebody else's";
      EXPECT_FALSE(datagram_for(many.tap(i), 5555)) << i;
    }
  });
}

// A policy changes while the network is being admitted by what was read before.
TEST(NetworksTest, WhatIsReadLastDecidesLast) {
  in_new_host([] {
    ManyNetworks one;
    ASSERT_NO_FATAL_FAILURE(one.open());
    ASSERT_NO_FATAL_FAILURE(one.plug_one());
    net::Event read_on(one.io().get_executor());
    int held = 0;
    int ended = 0;
    const std::string id = ManyNetworks::id(0);
    Networks& networks = one.networks();
    // The first one reads its policies slowly.
    const auto slow = [&]() -> net::Task<void> {
      auto admission = co_await networks.admit(id, in_half_a_minute());
      EXPECT_TRUE(admission) << admission.error().text();
      ++held;
      (void)co_await read_on.wait(in_half_a_minute());
      EXPECT_TRUE(co_await admission->decide_by(internet(), in_half_a_minute()));
      ++ended;
    };
    const auto nothing = [&]() -> net::Task<void> {
      auto admission = co_await networks.admit_again(id, in_half_a_minute());
      EXPECT_TRUE(admission && *admission);
      ++held;
      core::EgressStack closed{core::internet_egress(), core::no_egress(), {}};
      EXPECT_TRUE(co_await (*admission)->decide_by(std::move(closed), in_half_a_minute()));
      ++ended;
    };
    const auto failed = [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); };
    net::asio::co_spawn(one.io(), slow(), failed);
    net::asio::co_spawn(one.io(), nothing(), failed);
    while (one.io().poll() != 0) {
    }
    EXPECT_EQ(held, 1);
    EXPECT_EQ(ended, 0);
    read_on.notify();
    while (ended < 2) one.io().run_one();
    EXPECT_EQ(held, 2);
    send(one.tap(0), from_guest(10));
    EXPECT_FALSE(datagram_for(one.world(), 4000));
  });
}

TEST(NetworksTest, AHostWithoutIpv6HasNetworks) {
  in_new_host([] {
    ManyNetworks one;
    ASSERT_NO_FATAL_FAILURE(one.open(false));
    ASSERT_NO_FATAL_FAILURE(one.add_one());
    EXPECT_THAT(one.addresses(0), testing::IsSupersetOf({kGateway4, uplink4(0).inside.c_str()}));
    for (const char* absent : {kGateway6, uplink6(0).inside.c_str()})
      EXPECT_THAT(one.addresses(0), testing::Not(testing::Contains(absent)));
    send(one.tap(0), from_guest(10));
    EXPECT_TRUE(datagram_for(one.world(), 4000));
  });
}

TEST(NetworksTest, OneThatWasDismissedIsNotAdmittedAgain) {
  in_new_host([] {
    ManyNetworks one;
    ASSERT_NO_FATAL_FAILURE(one.open());
    ASSERT_NO_FATAL_FAILURE(one.add_one());
    Networks& networks = one.networks();
    int admitted = 0;
    const auto again = [&]() -> net::Task<void> {
      const auto admission = co_await networks.admit_again(ManyNetworks::id(0), in_half_a_minute());
      EXPECT_TRUE(admission);
      if (admission && *admission) ++admitted;
    };
    one.run(again());
    EXPECT_EQ(admitted, 1);
    one.run(networks.dismiss(ManyNetworks::id(0), in_half_a_minute()));
    one.run(again());
    EXPECT_EQ(admitted, 1);
  });
}

}  // namespace
}  // namespace firebreak::egress
