// The host names and addresses of microVMs' endpoints in answers. The program fills them in when it
// opens the listener; then they are read only.
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
