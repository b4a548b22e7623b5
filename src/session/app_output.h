// What an image's application printed. The host keeps it, so that it can also be read while the
// microVM sleeps and after its end. It passed the outlet on its way into the log. One executor.
#pragma once

#include <functional>
#include <variant>

#include "control/supervisor.h"
#include "session/output.h"

namespace firebreak::session {

using AppEvent = std::variant<Chunk, Gap>;
using AppSink = std::function<net::Task<Result<>>(AppEvent)>;

// Everything from the beginning; with `follow` until the microVM has ended. Of one that has just
// started it waits a second for the first line.
net::Task<Result<>> read_app_output(control::Supervisor& supervisor, core::TenantId tenant,
                                    core::MicrovmId id, bool follow, AppSink sink);

}  // namespace firebreak::session
