// From "the kernel started /init" to two open ports: file systems, modules, devices, cgroups. Runs
// once, before any other thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

struct Ports {
  UniqueFd ctl;
  UniqueFd data;
};

Result<> mount_agent_filesystems();
// The files named in DIR/order, one per line, in that order.
Result<> load_modules(const std::string& dir);
// Waits for both to appear.
Result<Ports> open_ports();

// What the tenant can never starve: ahead of every ordinary process; what this thread starts is
// ordinary again.
Result<> make_thread_realtime();

// PID 1 of the tenant when the application is not: waits for orphans, for ever.
[[noreturn]] void run_reaper();

}  // namespace firebreak::guest
