// A network namespace for tests with two taps whose other ends the test holds: it plays the guest
// and the world. The kernel handles a frame before write() returns, so what comes out is there at
// once.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/sys.h"
#include "egress/packet_test_support.h"
#include "egress/ruleset.h"

namespace firebreak::egress {

class TestNamespace {
 public:
  static Result<std::unique_ptr<TestNamespace>> make() {
    std::unique_ptr<TestNamespace> out(new TestNamespace);
    Result<> result;
    std::thread thread([&] { result = out->build(); });
    thread.join();
    if (!result) return std::unexpected(std::move(result).error());
    return out;
  }

  int netns() const { return netns_.get(); }
  int tap() const { return tap_.get(); }
  int uplink() const { return uplink_.get(); }
  static Wiring wiring() {
    Wiring out;
    out.guest_mac = {0x52, 0x54, 0, 0, 0, 2};
    out.guest4 = *core::parse_address("10.0.0.2");
    out.gateway4 = *core::parse_address("10.0.0.1");
    out.guest6 = core::parse_address("fd00::2");
    out.gateway6 = core::parse_address("fd00::1");
    return out;
  }
  static core::IpAddress uplink4() { return *core::parse_address("100.64.7.2"); }
  static core::IpAddress uplink6() { return *core::parse_address("fd64::7:2"); }
  static constexpr MacAddress kTapMac{0x02, 0, 0, 0, 0, 1};
  static constexpr MacAddress kUplinkMac{0x02, 0, 0, 0, 0, 3};

  static Result<> send(int fd, const std::string& frame) {
    if (::write(fd, frame.data(), frame.size()) != static_cast<ssize_t>(frame.size())) {
      return fail_errno("writing a frame");
    }
    return {};
  }
  // All IP packets that wait there.
  static std::vector<SeenPacket> received(int fd) {
    std::vector<SeenPacket> out;
    std::array<char, 4096> buffer{};
    while (true) {
      const ssize_t size = ::read(fd, buffer.data(), buffer.size());
      if (size <= 0) return out;
      if (auto seen = parse_frame({buffer.data(), static_cast<std::size_t>(size)})) {
        out.push_back(*std::move(seen));
      }
    }
  }
  // What the rules logged.
  std::vector<LogLabel> logged() const {
    std::vector<LogLabel> out;
    alignas(nlmsghdr) std::array<char, 16384> buffer{};
    while (true) {
      ssize_t size = ::recv(log_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size <= 0) return out;
      const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
      while (NLMSG_OK(message, static_cast<unsigned>(size))) {
        if (message->nlmsg_type == ((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_PACKET)) {
          out.push_back(read_log(message));
        }
        message = NLMSG_NEXT(message, size);
      }
    }
  }

 private:
  TestNamespace() = default;

  static LogLabel read_log(const nlmsghdr* message) {
    std::string prefix;
    std::uint32_t mark = 0;
    const auto* at = static_cast<const char*>(NLMSG_DATA(message)) + sizeof(nfgenmsg);
    const char* end = reinterpret_cast<const char*>(message) + message->nlmsg_len;
    while (at + sizeof(nlattr) <= end) {
      nlattr attribute;
      std::memcpy(&attribute, at, sizeof attribute);
      const char* data = at + sizeof attribute;
      if (attribute.nla_type == NFULA_PREFIX) prefix = data;
      if (attribute.nla_type == NFULA_MARK) mark = get_u32(data);
      at += NLA_ALIGN(attribute.nla_len);
    }
    return parse_log(prefix, mark).value_or(LogLabel{});
  }

  Result<> build() {
    if (unshare(CLONE_NEWNET) != 0) return fail_errno("making a network namespace");
    FB_TRY_ASSIGN(netns_, sys::open("/proc/thread-self/ns/net", O_RDONLY));
    socket4_ = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    socket6_ = UniqueFd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    FB_TRY_ASSIGN(tap_, link("tap0", kTapMac, "10.0.0.1", "fd00::1"));
    FB_TRY_ASSIGN(uplink_, link("up0", kUplinkMac, "100.64.7.2", "fd64::7:2"));
    FB_TRY(default_routes());
    FB_TRY(sys::write_file("/proc/sys/net/ipv4/ip_forward", "1"));
    FB_TRY(sys::write_file("/proc/sys/net/ipv6/conf/all/forwarding", "1"));
    return listen_to_log();
  }

  static ifreq request(const char* name) {
    ifreq out{};
    std::strncpy(out.ifr_name, name, IFNAMSIZ - 1);
    return out;
  }

  // Without ARP, because nobody is there to answer.
  Result<UniqueFd> link(const char* name, const MacAddress& mac, const char* v4, const char* v6) {
    FB_TRY_ASSIGN(UniqueFd fd, sys::open("/dev/net/tun", O_RDWR | O_NONBLOCK));
    ifreq r = request(name);
    r.ifr_flags = IFF_TAP | IFF_NO_PI;
    FB_TRY(call(fd.get(), TUNSETIFF, &r));
    r = request(name);
    r.ifr_hwaddr.sa_family = 1;
    std::copy(mac.begin(), mac.end(), r.ifr_hwaddr.sa_data);
    FB_TRY(call(socket4_.get(), SIOCSIFHWADDR, &r));
    r = request(name);
    r.ifr_flags = IFF_UP | IFF_NOARP;
    FB_TRY(call(socket4_.get(), SIOCSIFFLAGS, &r));
    r = request(name);
    auto* address = reinterpret_cast<sockaddr_in*>(&r.ifr_addr);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, v4, &address->sin_addr);
    FB_TRY(call(socket4_.get(), SIOCSIFADDR, &r));
    inet_pton(AF_INET, "255.255.255.252", &address->sin_addr);
    FB_TRY(call(socket4_.get(), SIOCSIFNETMASK, &r));
    in6_request r6{};
    inet_pton(AF_INET6, v6, &r6.address);
    r6.prefix = 64;
    r6.index = static_cast<int>(index(name));
    FB_TRY(call(socket6_.get(), SIOCSIFADDR, &r6));
    return fd;
  }

  Result<> default_routes() {
    rtentry route{};
    route.rt_dst.sa_family = AF_INET;
    route.rt_genmask.sa_family = AF_INET;
    std::string device = "up0";
    route.rt_dev = device.data();
    route.rt_flags = RTF_UP;
    FB_TRY(call(socket4_.get(), SIOCADDRT, &route));
    in6_route route6{};
    route6.metric = 1;
    route6.flags = RTF_UP;
    route6.index = static_cast<int>(index("up0"));
    return call(socket6_.get(), SIOCADDRT, &route6);
  }

  unsigned index(const char* name) {
    ifreq r = request(name);
    ::ioctl(socket4_.get(), SIOCGIFINDEX, &r);
    return static_cast<unsigned>(r.ifr_ifindex);
  }

  Result<> listen_to_log() {
    log_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
    nfulnl_msg_config_cmd bind{NFULNL_CFG_CMD_BIND};
    FB_TRY(configure_log(NFULA_CFG_CMD, &bind, sizeof bind));
    nfulnl_msg_config_mode mode{htonl(256), NFULNL_COPY_PACKET, 0};
    FB_TRY(configure_log(NFULA_CFG_MODE, &mode, sizeof mode));
    std::uint32_t at_once = htonl(1);
    return configure_log(NFULA_CFG_QTHRESH, &at_once, sizeof at_once);
  }

  Result<> configure_log(std::uint16_t type, const void* data, std::size_t size) {
    struct {
      nlmsghdr header;
      nfgenmsg body;
      nlattr attribute;
      std::array<char, 16> data;
    } r{};
    r.attribute.nla_type = type;
    r.attribute.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + size);
    std::memcpy(r.data.data(), data, size);
    r.header.nlmsg_len = static_cast<std::uint32_t>(sizeof(nlmsghdr) + sizeof(nfgenmsg) +
                                                    NLA_ALIGN(r.attribute.nla_len));
    r.header.nlmsg_type = (NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG;
    r.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    r.body.res_id = htons(kLogGroup);
    if (::send(log_.get(), &r, r.header.nlmsg_len, 0) < 0) return fail_errno("asking for the log");
    alignas(nlmsghdr) std::array<char, 1024> answer{};
    if (::recv(log_.get(), answer.data(), answer.size(), 0) < 0) return fail_errno("log");
    const int error = reinterpret_cast<const nlmsgerr*>(answer.data() + sizeof(nlmsghdr))->error;
    if (error != 0) return fail_errno("log", -error);
    return {};
  }

  static Result<> call(int fd, unsigned long what, void* argument) {
    if (::ioctl(fd, what, argument) != 0) return fail_errno("ioctl " + std::to_string(what));
    return {};
  }

  struct in6_request {
    in6_addr address;
    std::uint32_t prefix;
    int index;
  };
  struct in6_route {
    in6_addr destination, source, gateway;
    std::uint32_t type;
    std::uint16_t destination_length, source_length;
    std::uint32_t metric;
    unsigned long info;
    std::uint32_t flags;
    int index;
  };

  UniqueFd netns_, tap_, uplink_, socket4_, socket6_, log_;
};

// What became of one packet of the guest.
struct Outcome {
  bool passed = false;
  bool masked = false;            // with the address of the uplink
  std::uint16_t masked_port = 0;  // from which the world sees it come
  bool answered = false;          // reset, or prohibited
  std::vector<LogLabel> logged;
};

// Sends as the guest and looks at both ends.
class GuestSide {
 public:
  explicit GuestSide(TestNamespace& at) : at_(at) { drain(); }

  Outcome send(const Packet& packet) {
    for (const std::string& frame : frames(packet)) {
      EXPECT_TRUE(TestNamespace::send(at_.tap(), frame));
    }
    Outcome out;
    const bool v6 = packet.source.v6;
    const core::IpAddress masked = v6 ? TestNamespace::uplink6() : TestNamespace::uplink4();
    for (const SeenPacket& seen : TestNamespace::received(at_.uplink())) {
      if (seen.destination != packet.destination || seen.protocol != packet.protocol) continue;
      out.passed = true;
      out.masked = seen.source == masked;
      out.masked_port = seen.source_port;
    }
    for (const SeenPacket& seen : TestNamespace::received(at_.tap())) {
      out.answered |=
          packet.protocol == core::kTcp
              ? seen.reset() && seen.source == packet.destination && seen.port == packet.source_port
              : seen.prohibited() && !seen.about.empty() &&
                    seen.about[0].destination == packet.destination;
    }
    out.logged = at_.logged();
    return out;
  }

  void drain() {
    TestNamespace::received(at_.tap());
    TestNamespace::received(at_.uplink());
    at_.logged();
  }

 private:
  TestNamespace& at_;
};

}  // namespace firebreak::egress
