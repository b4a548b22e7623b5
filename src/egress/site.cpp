#include "egress/site.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "egress/netns.h"
#include "egress/plan.h"

namespace firebreak::egress {
namespace {

using MakeLink = machine::NetworkBackend::MakeLink;

constexpr std::uint16_t kDnsPort = 53;
constexpr int kBacklog = 16;
constexpr int kTlsGateBacklog = 128;

// Runs in the namespace: the guest's side.
Result<> wire_guest(const Links& links, bool ipv6, const MakeLink& make_link) {
  FB_TRY(make_link(kTap));
  FB_TRY(links.set_mac(kTap, kGatewayMac));
  FB_TRY(links.add_address(kTap, {kGateway4, kGuestPrefix4}));
  if (ipv6) FB_TRY(links.add_address(kTap, {kGateway6, kGuestPrefix6}));
  FB_TRY(links.set_up(kTap));
  FB_TRY(links.add_neighbour(kTap, kGuest4, kGuestMac));
  if (ipv6) FB_TRY(links.add_neighbour(kTap, kGuest6, kGuestMac));
  return {};
}

// Runs in the namespace: the world's side.
Result<> wire_uplink(const Links& links, std::uint32_t slot, bool ipv6) {
  FB_TRY(links.set_up("lo"));
  FB_TRY(links.add_address(kUplink, {uplink4(slot).inside, 31}));
  if (ipv6) FB_TRY(links.add_address(kUplink, {uplink6(slot).inside, 127}));
  FB_TRY(links.set_up(kUplink));
  FB_TRY(links.add_default_route(uplink4(slot).host, kUplink));
  FB_TRY(sys::write_file("/proc/sys/net/ipv4/ip_forward", "1"));
  if (!ipv6) return {};
  // The host's end may have no address.
  (void)links.add_default_route(uplink6(slot).host, kUplink);
  return sys::write_file("/proc/sys/net/ipv6/conf/all/forwarding", "1");
}

Result<UniqueFd> bound(int netns, const char* address, std::uint16_t port, int type) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v4 = ::inet_pton(AF_INET, address, &v4.sin_addr) == 1;
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (!is_v4) ::inet_pton(AF_INET6, address, &v6.sin6_addr);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  FB_TRY_ASSIGN(UniqueFd fd, socket_in(netns, is_v4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* to =
      is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  if (::bind(fd.get(), to, is_v4 ? sizeof v4 : sizeof v6) != 0)
    return fail_errno(fmt::format("binding to {} port {}", address, port));
  return fd;
}

Result<UniqueFd> listening(int netns, const char* address, std::uint16_t port, int backlog) {
  FB_TRY_ASSIGN(UniqueFd fd, bound(netns, address, port, SOCK_STREAM));
  if (::listen(fd.get(), backlog) != 0) return fail_errno("listen");
  return fd;
}

}  // namespace

Result<std::unique_ptr<Site>> Site::make(const std::string& pin, const std::string& id,
                                         HostSide& host, const core::Clock& clock,
                                         core::EgressStack likely, const MakeLink& make_link) {
  FB_TRY_ASSIGN(UniqueFd netns, make_namespace(pin));
  // Rules before links: there is no moment in which something could pass.
  FB_TRY_ASSIGN(std::unique_ptr<Firewall> firewall, Firewall::open(netns.get(), clock));
  FB_TRY(firewall->load_closed(likely, wiring(host.ipv6())));
  FB_TRY_ASSIGN(const std::uint32_t slot, host.join(id, netns.get()));
  FB_TRY(in_namespace(netns.get(), [&]() -> Result<> {
    FB_TRY_ASSIGN(const Links links, Links::open());
    FB_TRY(wire_uplink(links, slot, host.ipv6()));
    return wire_guest(links, host.ipv6(), make_link);
  }));
  std::unique_ptr<Site> site(new Site(std::move(netns), std::move(firewall), host.ipv6()));
  site->likely_ = std::move(likely);
  return site;
}

Result<std::unique_ptr<Site>> Site::find(const std::string& pin, const HostSide& host,
                                         const core::Clock& clock) {
  FB_TRY_ASSIGN(UniqueFd netns, open_namespace(pin));
  FB_TRY_ASSIGN(std::unique_ptr<Firewall> firewall, Firewall::open(netns.get(), clock));
  std::unique_ptr<Site> site(new Site(std::move(netns), std::move(firewall), host.ipv6()));
  site->found_ = true;
  return site;
}

Result<> Site::admit(const core::EgressStack& stack, const core::EgressPins& pins,
                     const Counters& before) {
  const auto likely = std::exchange(likely_, std::nullopt);
  if (likely && *likely == stack && before == Counters{}) return firewall_->open_gate();
  Wiring wired = wiring(ipv6_);
  wired.tls_gate = tls_gate_;
  if (std::exchange(found_, false) && firewall_->adopt(stack, wired)) return {};
  return firewall_->load(stack, wired, pins, before);
}

Result<> Site::remove(const std::string& pin, const std::string& id, HostSide& host) {
  const Result<> left = host.leave(id);
  FB_TRY(remove_namespace(pin));
  return left;
}

std::vector<const char*> Site::gateways() const {
  return ipv6_ ? std::vector{kGateway4, kGateway6} : std::vector{kGateway4};
}

Wiring Site::wiring(bool ipv6) {
  Wiring wiring;
  wiring.tap = kTap;
  wiring.uplink = kUplink;
  wiring.guest_mac = kGuestMac;
  wiring.guest4 = *core::parse_address(kGuest4);
  wiring.gateway4 = *core::parse_address(kGateway4);
  if (!ipv6) return wiring;
  wiring.guest6 = core::parse_address(kGuest6);
  wiring.gateway6 = core::parse_address(kGateway6);
  return wiring;
}

Result<ResolverSockets> Site::resolver_sockets() const {
  ResolverSockets sockets;
  for (const char* address : gateways()) {
    FB_TRY_ASSIGN(UniqueFd udp, bound(netns_.get(), address, kDnsPort, SOCK_DGRAM));
    FB_TRY_ASSIGN(UniqueFd tcp, listening(netns_.get(), address, kDnsPort, kBacklog));
    sockets.udp.push_back(std::move(udp));
    sockets.tcp.push_back(std::move(tcp));
  }
  return sockets;
}

Result<std::vector<UniqueFd>> Site::tls_gate_sockets() {
  std::vector<UniqueFd> sockets;
  for (const char* address : gateways()) {
    FB_TRY_ASSIGN(UniqueFd fd, listening(netns_.get(), address, kTlsGatePort, kTlsGateBacklog));
    sockets.push_back(std::move(fd));
  }
  tls_gate_ = true;
  return sockets;
}

Result<UniqueFd> Site::stream_socket(bool v6) const {
  return socket_in(netns_.get(), v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

Result<NetfilterSockets> Site::netfilter_sockets() const {
  NetfilterSockets sockets;
  FB_TRY(in_namespace(netns_.get(), [&]() -> Result<> {
    FB_TRY_ASSIGN(sockets, open_netfilter_sockets());
    return {};
  }));
  return sockets;
}

}  // namespace firebreak::egress
