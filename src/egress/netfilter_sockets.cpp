#include "egress/netfilter_sockets.h"

#include <cerrno>
#include <string>

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_compat.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "egress/ruleset.h"

namespace firebreak::egress {
namespace {

constexpr int kReceiveBuffer = 512 * 1024;
constexpr std::uint32_t kCopied = 128;  // bytes of a packet: its headers
constexpr timeval kAnswerWithin{2, 0};
constexpr int kMostBefore = 1000;

Result<UniqueFd> open_netfilter(std::uint32_t groups) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd) return fail_errno("opening the log of the network");
  // Not more than this, whatever the guest does; what does not fit is lost and counted.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerWithin, sizeof kAnswerWithin);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("opening the log of the network");
  return fd;
}

template <class T>
void put_attribute(std::string& out, std::uint16_t type, const T& value) {
  const nlattr head{static_cast<std::uint16_t>(sizeof head + sizeof value), type};
  out.append(reinterpret_cast<const char*>(&head), sizeof head);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
  out.resize(NLA_ALIGN(out.size()), '\0');
}

// Takes the log group for this socket, with all its settings at once.
Result<> take_group(int fd) {
  std::string settings;
  put_attribute(settings, NFULA_CFG_CMD, nfulnl_msg_config_cmd{NFULNL_CFG_CMD_BIND});
  put_attribute(settings, NFULA_CFG_MODE,
                nfulnl_msg_config_mode{htonl(kCopied), NFULNL_COPY_PACKET, 0});
  put_attribute(settings, NFULA_CFG_QTHRESH, std::uint32_t{htonl(1)});  // told at once
  const nfgenmsg body{AF_UNSPEC, NFNETLINK_V0, htons(kLogGroup)};
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof head + sizeof body + settings.size());
  head.nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
  head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  std::string request(reinterpret_cast<const char*>(&head), sizeof head);
  request.append(reinterpret_cast<const char*>(&body), sizeof body).append(settings);
  if (::send(fd, request.data(), request.size(), 0) < 0) return fail_errno("the packet log");
  return {};
}

// Packets that rules log already may come before the answer; these few are lost.
Result<> read_answer(int fd) {
  struct {
    nlmsghdr header;
    nlmsgerr error;
  } answer{};
  for (int i = 0; i < kMostBefore; ++i) {
    const ssize_t got = ::recv(fd, &answer, sizeof answer, 0);
    if (got < 0) return fail_errno("the packet log");
    if (got < static_cast<ssize_t>(sizeof answer) || answer.header.nlmsg_type != NLMSG_ERROR)
      continue;
    // Not about rights: joining the group of connections needed them already.
    if (answer.error.error == -EPERM || answer.error.error == -EBUSY) {
      return fail(Code::conflict, "another program reads this namespace's packet log",
                  "NFLOG group " + std::to_string(kLogGroup));
    }
    if (answer.error.error != 0) return fail_errno("the packet log", -answer.error.error);
    return {};
  }
  return fail(Code::internal, "the packet log: the kernel gave no answer");
}

}  // namespace

Result<NetfilterSockets> open_netfilter_sockets() {
  NetfilterSockets out;
  FB_TRY_ASSIGN(out.connections, open_netfilter(NF_NETLINK_CONNTRACK_DESTROY));
  FB_TRY_ASSIGN(out.packets, open_netfilter(0));
  FB_TRY(take_group(out.packets.get()));
  FB_TRY(read_answer(out.packets.get()));
  return out;
}

}  // namespace firebreak::egress
