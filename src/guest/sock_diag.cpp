#include "guest/sock_diag.h"

#include <array>
#include <cerrno>

#include <sys/socket.h>
#include <sys/time.h>

namespace firebreak::guest {

Result<UniqueFd> open_sock_diag() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd) return fail_errno("sock_diag");
  const timeval limit{2, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

Result<> send_diag(int fd, DiagMessage message, std::uint16_t type, std::uint16_t flags) {
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = type;
  message.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  if (::send(fd, &message, sizeof message, 0) < 0) return fail_errno("sock_diag");
  return {};
}

Result<> receive_diag(int fd, const std::function<void(const inet_diag_msg&)>& each) {
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

}  // namespace firebreak::guest
