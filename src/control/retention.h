// What is kept of what is over, and for how long. The ticker calls; one executor.
#pragma once

#include "control/live_microvms.h"
#include "control/services.h"

namespace firebreak::control {

// Forgets what is older than the options say: records, logs and decisions of microVMs that ended,
// what each of them used (their tenants' days keep the sum), and events of those that live. What
// cannot be done now is logged, and tried the next time.
net::Task<void> forget_old(Services& services, const LiveMicrovms& live);
// Logs stay as long as their microVM's record.
net::Task<Result<>> forget_app_logs(Services& services, const LiveMicrovms& live);

}  // namespace firebreak::control
