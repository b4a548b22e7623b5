#include "base/links.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/sys.h"

namespace firebreak {
namespace {

constexpr std::size_t kBuffer = 32 * 1024UL;

struct Address {
  std::uint8_t family = AF_INET;
  std::array<std::byte, 16> bytes{};
  std::size_t size = 4;
};

Result<Address> parse_address(const std::string& text) {
  Address out;
  if (::inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) return out;
  if (::inet_pton(AF_INET6, text.c_str(), out.bytes.data()) != 1)
    return fail(Code::invalid, "'" + text + "' is not an address");
  out.family = AF_INET6;
  out.size = 16;
  return out;
}

// One request, built in place; far larger than any of ours.
class Message {
 public:
  Message(std::uint16_t type, std::uint16_t flags) {
    header()->nlmsg_len = NLMSG_HDRLEN;
    header()->nlmsg_type = type;
    header()->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header()->nlmsg_seq = 1;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  template <class Header>
  Header& family_header() {
    return *static_cast<Header*>(grow(sizeof(Header)));
  }
  void put(std::uint16_t type, const std::string& text) {
    put(type, text.c_str(), text.size() + 1);
  }
  void put(std::uint16_t type, std::uint32_t value) { put(type, &value, sizeof value); }
  void put(std::uint16_t type, const void* data, std::size_t size) {
    auto* attribute = static_cast<rtattr*>(grow(RTA_LENGTH(size)));
    attribute->rta_type = type;
    attribute->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
    std::memcpy(RTA_DATA(attribute), data, size);
  }
  void put(std::uint16_t type, const Address& address) {
    put(type, address.bytes.data(), address.size);
  }
  rtattr* open_nest(std::uint16_t type) {
    auto* nest = static_cast<rtattr*>(grow(RTA_LENGTH(0)));
    nest->rta_type = type;
    return nest;
  }
  void close_nest(rtattr* nest) {
    nest->rta_len = static_cast<std::uint16_t>(buffer_.data() + header()->nlmsg_len -
                                               reinterpret_cast<char*>(nest));
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }

 private:
  void* grow(std::size_t size) {
    char* at = buffer_.data() + header()->nlmsg_len;
    header()->nlmsg_len += static_cast<std::uint32_t>(NLMSG_ALIGN(size));
    if (header()->nlmsg_len > buffer_.size()) std::abort();  // a name that was not checked
    return at;
  }
  alignas(nlmsghdr) std::array<char, 2048> buffer_{};
};

using Each = std::function<void(const nlmsghdr&)>;

// Sends, and reads until the kernel has acknowledged or said that a dump is done.
Result<> exchange(int socket, nlmsghdr* message, const std::string& doing, const Each& each = {}) {
  if (::send(socket, message, message->nlmsg_len, 0) < 0) return fail_errno(doing);
  std::vector<char> buffer(kBuffer);
  for (;;) {
    const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail_errno(doing);
    auto left = static_cast<unsigned>(size);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return {};
      if (header->nlmsg_type == NLMSG_ERROR) {
        const int err = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
        if (err != 0) return fail_errno(doing, err);
        return {};
      }
      if (each) each(*header);
    }
  }
}

// Calls `each` with type and value of every attribute behind the family's header.
template <class Header>
void each_attribute(const nlmsghdr& message,
                    const std::function<void(int, std::span<const char>)>& each) {
  const char* at = static_cast<const char*>(NLMSG_DATA(&message)) + NLMSG_ALIGN(sizeof(Header));
  auto left = static_cast<int>(message.nlmsg_len - NLMSG_SPACE(sizeof(Header)));
  for (const auto* attribute = reinterpret_cast<const rtattr*>(at); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left))
    each(attribute->rta_type,
         {static_cast<const char*>(RTA_DATA(attribute)), RTA_PAYLOAD(attribute)});
}

template <class Header>
const Header& family_header(const nlmsghdr& message) {
  return *static_cast<const Header*>(NLMSG_DATA(&message));
}

std::string text_of(std::span<const char> value) {
  return {value.data(), ::strnlen(value.data(), value.size())};
}

}  // namespace

Result<Links> Links::open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return fail_errno("netlink");
  const timeval limit{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return Links(std::move(socket));
}

Result<> Links::request(nlmsghdr* message, const std::string& doing) const {
  message->nlmsg_flags |= NLM_F_ACK;
  return exchange(socket_.get(), message, doing);
}

Result<std::vector<Link>> Links::list() const {
  Message message(RTM_GETLINK, NLM_F_DUMP);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  std::vector<Link> links;
  FB_TRY(exchange(socket_.get(), message.header(), "listing links", [&](const nlmsghdr& reply) {
    const auto& header = family_header<ifinfomsg>(reply);
    Link link;
    link.index = static_cast<std::uint32_t>(header.ifi_index);
    link.ethernet = header.ifi_type == ARPHRD_ETHER;
    each_attribute<ifinfomsg>(reply, [&link](int type, std::span<const char> value) {
      if (type == IFLA_IFNAME) link.name = text_of(value);
      if (type == IFLA_IFALIAS) link.alias = text_of(value);
    });
    links.push_back(std::move(link));
  }));
  return links;
}

Result<std::uint32_t> Links::index_of(const std::string& name) const {
  Message message(RTM_GETLINK, NLM_F_ACK);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  message.put(IFLA_IFNAME, name);
  std::uint32_t index = 0;
  FB_TRY(exchange(socket_.get(), message.header(), "looking for " + name,
                  [&index](const nlmsghdr& reply) {
                    index = static_cast<std::uint32_t>(family_header<ifinfomsg>(reply).ifi_index);
                  }));
  return index;
}

Result<> Links::add_veth(const std::string& name, const std::string& alias, int peer_netns,
                         const std::string& peer_name) const {
  Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  message.put(IFLA_IFNAME, name);
  rtattr* info = message.open_nest(IFLA_LINKINFO);
  message.put(IFLA_INFO_KIND, std::string("veth"));
  rtattr* data = message.open_nest(IFLA_INFO_DATA);
  rtattr* peer = message.open_nest(VETH_INFO_PEER);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  message.put(IFLA_IFNAME, peer_name);
  message.put(IFLA_NET_NS_FD, static_cast<std::uint32_t>(peer_netns));
  message.close_nest(peer);
  message.close_nest(data);
  message.close_nest(info);
  FB_TRY(request(message.header(), "making the link " + name));
  // The kernel takes it only for a link that is there already.
  Message named(RTM_NEWLINK, 0);
  named.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  named.put(IFLA_IFNAME, name);
  named.put(IFLA_IFALIAS, alias.data(), alias.size());
  return request(named.header(), "naming the link " + name);
}

Result<> Links::remove(const std::string& name) const {
  Message message(RTM_DELLINK, 0);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  message.put(IFLA_IFNAME, name);
  return request(message.header(), "removing the link " + name);
}

Result<> Links::move(std::uint32_t index, int netns, const std::string& name) const {
  Message message(RTM_NEWLINK, 0);
  message.family_header<ifinfomsg>().ifi_index = static_cast<int>(index);
  message.put(IFLA_NET_NS_FD, static_cast<std::uint32_t>(netns));
  message.put(IFLA_IFNAME, name);
  return request(message.header(), "moving the link " + name);
}

Result<> Links::set_up(const std::string& name) const {
  Message message(RTM_NEWLINK, 0);
  auto& header = message.family_header<ifinfomsg>();
  header.ifi_flags = IFF_UP;
  header.ifi_change = IFF_UP;
  message.put(IFLA_IFNAME, name);
  return request(message.header(), "bringing up " + name);
}

Result<> Links::set_mac(const std::string& name, const Mac& mac) const {
  Message message(RTM_NEWLINK, 0);
  message.family_header<ifinfomsg>().ifi_family = AF_UNSPEC;
  message.put(IFLA_IFNAME, name);
  message.put(IFLA_ADDRESS, mac.data(), mac.size());
  return request(message.header(), "setting the address of " + name);
}

Result<> Links::add_address(const std::string& name, const InterfaceAddress& address) const {
  FB_TRY_ASSIGN(const Address bytes, parse_address(address.address));
  FB_TRY_ASSIGN(const std::uint32_t index, index_of(name));
  Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.family_header<ifaddrmsg>();
  header.ifa_family = bytes.family;
  header.ifa_prefixlen = address.prefix;
  // Nobody else can be on a link of ours: no waiting until that is found out.
  header.ifa_flags = IFA_F_NODAD;
  header.ifa_index = index;
  message.put(IFA_LOCAL, bytes);
  message.put(IFA_ADDRESS, bytes);
  return request(message.header(), "giving " + name + " the address " + address.address);
}

Result<> Links::add_default_route(const std::string& via, const std::string& device) const {
  FB_TRY_ASSIGN(const Address gateway, parse_address(via));
  FB_TRY_ASSIGN(const std::uint32_t index, index_of(device));
  Message message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.family_header<rtmsg>();
  header.rtm_family = gateway.family;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  message.put(RTA_GATEWAY, gateway);
  message.put(RTA_OIF, index);
  return request(message.header(), "routing through " + via);
}

Result<> Links::add_neighbour(const std::string& device, const std::string& address,
                              const Mac& mac) const {
  FB_TRY_ASSIGN(const Address bytes, parse_address(address));
  FB_TRY_ASSIGN(const std::uint32_t index, index_of(device));
  Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
  auto& header = message.family_header<ndmsg>();
  header.ndm_family = bytes.family;
  header.ndm_ifindex = static_cast<std::int32_t>(index);
  header.ndm_state = NUD_PERMANENT;
  message.put(NDA_DST, bytes);
  message.put(NDA_LLADDR, mac.data(), mac.size());
  return request(message.header(), "fixing the neighbour " + address);
}

Result<std::vector<std::string>> Links::addresses() const {
  FB_TRY_ASSIGN(const std::vector<InterfaceAddress> found, interface_addresses());
  std::vector<std::string> texts;
  texts.reserve(found.size());
  for (const InterfaceAddress& one : found) texts.push_back(one.address);
  return texts;
}

Result<std::vector<InterfaceAddress>> Links::interface_addresses() const {
  Message message(RTM_GETADDR, NLM_F_DUMP);
  message.family_header<ifaddrmsg>().ifa_family = AF_UNSPEC;
  std::vector<InterfaceAddress> found;
  FB_TRY(exchange(socket_.get(), message.header(), "listing addresses", [&](const nlmsghdr& reply) {
    const auto& header = family_header<ifaddrmsg>(reply);
    if (header.ifa_scope == RT_SCOPE_HOST) return;
    std::string local;
    std::string any;
    each_attribute<ifaddrmsg>(reply, [&](int type, std::span<const char> value) {
      if (type != IFA_LOCAL && type != IFA_ADDRESS) return;
      if (value.size() != (header.ifa_family == AF_INET ? 4U : 16U)) return;
      char text[INET6_ADDRSTRLEN];
      if (::inet_ntop(header.ifa_family, value.data(), text, sizeof text) != nullptr)
        (type == IFA_LOCAL ? local : any) = text;
    });
    // A point-to-point link has both: the second is the other end.
    if (local.empty() && any.empty()) return;
    const bool between_two = !local.empty() && !any.empty() && local != any;
    const std::uint8_t whole = header.ifa_family == AF_INET ? 32 : 128;
    found.push_back({local.empty() ? any : local, between_two ? whole : header.ifa_prefixlen});
  }));
  return found;
}

Result<UniqueFd> open_tap(const std::string& name) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open("/dev/net/tun", O_RDWR | O_NONBLOCK));
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return fail(Code::invalid, "the tap's name is long");
  std::memcpy(request.ifr_name, name.c_str(), name.size() + 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(fd.get(), TUNSETIFF, &request) != 0) return fail_errno("making the tap " + name);
  return fd;
}

}  // namespace firebreak
