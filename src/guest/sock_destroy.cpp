#include "guest/sock_destroy.h"

#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "guest/sock_diag.h"

namespace firebreak::guest {
namespace {

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

Result<std::vector<DiagMessage>> outside(int fd, std::uint8_t family) {
  DiagMessage dump{};
  dump.request.sdiag_family = family;
  dump.request.sdiag_protocol = IPPROTO_TCP;
  dump.request.idiag_states = kStates;
  FB_TRY(send_diag(fd, dump, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP));
  std::vector<DiagMessage> found;
  FB_TRY(receive_diag(fd, [&](const inet_diag_msg& socket) {
    if (is_loopback(socket.idiag_family, socket.id.idiag_src) &&
        is_loopback(socket.idiag_family, socket.id.idiag_dst))
      return;
    DiagMessage destroy = dump;
    destroy.request.id = socket.id;
    found.push_back(destroy);
  }));
  return found;
}

}  // namespace

Result<std::uint64_t> destroy_outside_sockets(int sock_diag) {
  std::uint64_t destroyed = 0;
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    auto found = outside(sock_diag, family);
    // A kernel without this family has none of its sockets.
    if (!found && found.error().code == Code::not_found) continue;
    if (!found) return std::unexpected(found.error());
    for (const DiagMessage& message : *found) {
      FB_TRY(send_diag(sock_diag, message, SOCK_DESTROY, NLM_F_ACK));
      if (receive_diag(sock_diag, [](const inet_diag_msg&) {})) ++destroyed;
    }
  }
  return destroyed;
}

}  // namespace firebreak::guest
