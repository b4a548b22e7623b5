// Whether the caller is still there. A façade makes one of its connection; work that nobody waits
// for is ended. One executor.
#pragma once

#include "net/task.h"

namespace firebreak::session {

class Presence {
 public:
  virtual ~Presence() = default;
  // Returns when the caller has gone.
  virtual net::Task<void> gone() = 0;
};

// Runs the task, but no longer than the caller stays: then Code::unavailable, and what the task had
// under way is cancelled.
net::Task<Result<>> while_present(Presence& caller, net::Task<Result<>> task);

}  // namespace firebreak::session
