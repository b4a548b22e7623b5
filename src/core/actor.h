// Who acts, by which door. A value; any thread.
#pragma once

#include <string>

#include "core/ids.h"

namespace firebreak::core {

struct Actor {
  KeyId key;            // empty: the server itself, or a bearer of an endpoint's token
  std::string door;     // "native", "mcp", "lambda", "endpoint"; empty: the server itself
  std::string agent;    // that code runs for
  std::string session;  // in which it runs
  friend bool operator==(const Actor&, const Actor&) = default;
};

}  // namespace firebreak::core
