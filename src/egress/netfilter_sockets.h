// The sockets through which the kernel tells of a namespace's decisions. They belong to the
// namespace of the thread that opens them, wherever they are read.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::egress {

struct NetfilterSockets {
  UniqueFd packets;      // what rules log to kLogGroup
  UniqueFd connections;  // which connections ended, with the bytes they carried
};

// Call on a thread inside the namespace (in_namespace of netns.h), before its rules are loaded or
// adopted: what they log before is lost, and the end of connections that began before is not told.
// Needs CAP_NET_ADMIN there. Code::conflict: somebody has them open already.
Result<NetfilterSockets> open_netfilter_sockets();

}  // namespace firebreak::egress
