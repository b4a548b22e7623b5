#include "control/metering.h"

#include <utility>

namespace firebreak::control {

using core::MicrovmState;

bool account(LiveMicrovm& vm, core::Time now, bool last) {
  if (vm.meter.until == core::Time{} || vm.record.state == MicrovmState::pending) return false;
  core::Sample sample{.now = now};
  if (vm.machine) {
    // One that is just being resumed counts as suspended until it is RUNNING.
    if (vm.record.state == MicrovmState::suspended && !last) return false;
    auto usage = vm.machine->usage();
    if (!usage && !last) return false;
    sample.state = MicrovmState::running;
    sample.cpu_counter_usec = usage ? usage->cpu_usec : vm.meter.cpu_counter;
    if (usage) sample.memory_bytes = vm.memory_bytes = usage->memory_bytes;
  } else if (vm.stored_bytes > 0) {
    sample.state = MicrovmState::suspended;
    sample.saved_bytes = vm.stored_bytes;
    vm.memory_bytes = 0;
  } else if (!last) {
    return false;
  } else {
    sample.state = MicrovmState::terminated;
  }
  sample.bytes_in = std::exchange(vm.bytes_in, 0);
  sample.bytes_out = std::exchange(vm.bytes_out, 0);
  core::advance(vm.meter, vm.size, sample);
  return true;
}

void begin_running(LiveMicrovm& vm, core::Time now) {
  vm.meter.until = now;
  vm.meter.cpu_counter = 0;
  if (auto usage = vm.machine->usage()) vm.meter.cpu_counter = usage->cpu_usec;
}

}  // namespace firebreak::control
