// The networks of machines, as engines use them: each machine that has one is attached to a
// namespace of its own. Implemented above the engines. Blocking calls; any thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace firebreak::machine {

class NetworkBackend {
 public:
  // Makes the device of that name, through which the guest's packets come and go. The engine knows
  // which kind of device its machines need.
  using MakeLink = std::function<Result<>(const std::string& device)>;

  virtual ~NetworkBackend() = default;
  // Makes the machine's namespace, runs `make_link` inside it, on a thread of its own, and gives
  // the new device its addresses. Nothing passes yet.
  virtual Result<> attach(const std::string& id, const MakeLink& make_link) = 0;
  // Removes the namespace and everything in it; also when only a part is there, or nothing.
  virtual Result<> detach(const std::string& id) = 0;
};

}  // namespace firebreak::machine
