// Ends the TCP connections of the tenant that lead outside, so that peers learn of it before the
// tenant stops for an unknown time. Through a netlink socket made in the tenant's network
// namespace; works on frozen owners. ctl thread.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

// Connections with a loopback address at both ends and listening sockets stay. Gives how many were
// ended.
Result<std::uint64_t> destroy_outside_sockets(int sock_diag);

}  // namespace firebreak::guest
