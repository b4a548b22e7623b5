// What this host can do for microVMs, found by trying: namespaces are made, a cgroup is made, a
// guest is booted. Values; blocks for up to ten seconds, one thread, and forks: call it before
// other threads are started.
#pragma once

#include <functional>
#include <vector>

#include "machine/accelerator_probe.h"
#include "machine/host_checks.h"

namespace firebreak::machine {

struct ProbeConfig {
  HostPaths paths;
  bool fresh = false;  // ignores the remembered verdict on the accelerator
};

struct HostReport {
  std::vector<Check> checks;
  Accelerator accelerator = Accelerator::tcg;  // the one to use
};

// As QEMU prints it; empty when it does not run.
std::string host_qemu_version();

// `on_check` gets each line as soon as it is known.
HostReport probe_host(const ProbeConfig& config, const std::function<void(const Check&)>& on_check);

}  // namespace firebreak::machine
