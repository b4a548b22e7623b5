// What microVMs' endpoints are called. Filled in by whoever opens the listener; then read only.
#pragma once

#include <string>

#include "core/ids.h"

namespace firebreak::ingress {

struct EndpointAddress {
  std::string authority;  // host and port that clients use
  std::string domain;     // of host style, with the port unless it is 443; empty: path style

  // Without a scheme, as https://{endpoint}/path wants it.
  std::string of(const core::EndpointId& id) const {
    return domain.empty() ? authority + "/vm/" + id.str() : id.str() + "." + domain;
  }
};

}  // namespace firebreak::ingress
