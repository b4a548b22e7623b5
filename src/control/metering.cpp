#include "control/metering.h"

#include <utility>

namespace firebreak::control {

using core::MicrovmState;

bool account(LiveMicrovm& vm, core::Time now, bool last) {
  if (vm.used.meter.until == core::Time{} || vm.state() == MicrovmState::pending) return false;
  core::Sample sample{.now = now};
  if (vm.machine()) {
    // One that is just being resumed counts as suspended until it is RUNNING.
    if (vm.state() == MicrovmState::suspended && !last) return false;
    auto usage = vm.machine()->usage();
    if (!usage && !last) return false;
    sample.state = MicrovmState::running;
    sample.cpu_counter_usec = usage ? usage->cpu_usec : vm.used.meter.cpu_counter;
    if (usage) sample.memory_bytes = vm.used.memory_bytes = usage->memory_bytes;
  } else if (vm.used.stored_bytes > 0) {
    sample.state = MicrovmState::suspended;
    sample.saved_bytes = vm.used.stored_bytes;
    vm.used.memory_bytes = 0;
  } else if (!last) {
    return false;
  } else {
    sample.state = MicrovmState::terminated;
  }
  sample.bytes_in = std::exchange(vm.used.bytes_in, 0);
  sample.bytes_out = std::exchange(vm.used.bytes_out, 0);
  core::advance(vm.used.meter, vm.size(), sample);
  return true;
}

void begin_running(LiveMicrovm& vm, core::Time now) {
  vm.used.meter.until = now;
  vm.used.meter.cpu_counter = 0;
  if (auto usage = vm.machine()->usage()) vm.used.meter.cpu_counter = usage->cpu_usec;
}

}  // namespace firebreak::control
