// Questions to the kernel about sockets of one network namespace, through netlink. Any thread, one
// at a time for each descriptor.
#pragma once

#include <cstdint>
#include <functional>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

struct DiagMessage {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// For the network namespace of the calling thread. An answer that is late by two seconds is an
// error.
Result<UniqueFd> open_sock_diag();
Result<> send_diag(int fd, DiagMessage message, std::uint16_t type, std::uint16_t flags);
// Calls `each` for every socket until the kernel says that it is done, or acknowledges.
Result<> receive_diag(int fd, const std::function<void(const inet_diag_msg&)>& each);

}  // namespace firebreak::guest
