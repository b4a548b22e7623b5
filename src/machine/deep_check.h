// The whole life of a microVM, tried out on this host with its real files: boot, exec, snapshot,
// clone, suspend, resume, fork, terminate, and a look for what is left. Values; blocks, one thread.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "machine/host_checks.h"
#include "machine/qemu/accelerator.h"
#include "machine/scratch_engine.h"

namespace firebreak::machine {

struct DeepStep {
  Check check;
  std::chrono::milliseconds took{};
};

// Ends with the first step that fails, and then still cleans up and looks for leaks. `on_step` gets
// each step as soon as it is done.
std::vector<DeepStep> run_deep_check(const HostPaths& paths, Accelerator accelerator,
                                     const std::function<void(const DeepStep&)>& on_step);

}  // namespace firebreak::machine
