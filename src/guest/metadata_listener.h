// Where the metadata service listens: 169.254.169.254 port 80 of the tenant's network namespace,
// whether or not the tenant has a network. The address is on its loopback device, so nothing sent
// there ever leaves. Made on the data thread, inside that namespace; held for the agent's life.
#pragma once

#include "base/fd.h"
#include "base/links.h"
#include "base/result.h"

namespace firebreak::guest {

struct MetadataListener {
  UniqueFd socket;
  UniqueFd redirect;  // BPF link: leads port 80 of the address to the socket

  // In the calling thread's namespace; `netns` and `links` are of the same one.
  static Result<MetadataListener> open(int netns, const Links& links);
};

}  // namespace firebreak::guest
