#include "guest/sock_destroy.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace firebreak::guest {
namespace {

struct Message {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// Connected or connecting: a listener stays, a closed one has no peer.
constexpr std::uint32_t kStates = 1U << TCP_ESTABLISHED | 1U << TCP_SYN_SENT | 1U << TCP_SYN_RECV |
                                  1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | 1U << TCP_CLOSE_WAIT |
                                  1U << TCP_LAST_ACK | 1U << TCP_CLOSING;

bool is_loopback(std::uint8_t family, const __be32 (&address)[4]) {
  if (family == AF_INET) return (ntohl(address[0]) >> 24) == 127;
  in6_addr v6{};
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<> send_message(int fd, Message message, std::uint16_t type, std::uint16_t flags) {
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = type;
  message.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  if (::send(fd, &message, sizeof message, 0) < 0) return fail_errno("sock_diag");
  return {};
}

// Calls `each` for every message until the kernel says done (or acknowledges).
template <class Each>
Result<> receive(int fd, Each each) {
  std::array<char, 32 * 1024UL> buffer;
  for (;;) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("sock_diag");
    auto left = static_cast<unsigned>(n);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return {};
      if (header->nlmsg_type == NLMSG_ERROR) {
        const int err = -static_cast<nlmsgerr*>(NLMSG_DATA(header))->error;
        if (err != 0) return fail_errno("sock_diag", err);
        return {};
      }
      each(*static_cast<inet_diag_msg*>(NLMSG_DATA(header)));
    }
  }
}

Result<std::vector<Message>> outside(int fd, std::uint8_t family) {
  Message dump{};
  dump.request.sdiag_family = family;
  dump.request.sdiag_protocol = IPPROTO_TCP;
  dump.request.idiag_states = kStates;
  FB_TRY(send_message(fd, dump, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP));
  std::vector<Message> found;
  FB_TRY(receive(fd, [&](const inet_diag_msg& socket) {
    if (is_loopback(socket.idiag_family, socket.id.idiag_src) &&
        is_loopback(socket.idiag_family, socket.id.idiag_dst))
      return;
    Message destroy = dump;
    destroy.request.id = socket.id;
    found.push_back(destroy);
  }));
  return found;
}

}  // namespace

Result<UniqueFd> open_sock_diag() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd) return fail_errno("sock_diag");
  const timeval limit{2, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

Result<std::uint64_t> destroy_outside_sockets(int sock_diag) {
  std::uint64_t destroyed = 0;
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    auto found = outside(sock_diag, family);
    // A kernel without this family has none of its sockets.
    if (!found && found.error().code == Code::not_found) continue;
    if (!found) return std::unexpected(found.error());
    for (const Message& message : *found) {
      FB_TRY(send_message(sock_diag, message, SOCK_DESTROY, NLM_F_ACK));
      if (receive(sock_diag, [](const inet_diag_msg&) {})) ++destroyed;
    }
  }
  return destroyed;
}

}  // namespace firebreak::guest
