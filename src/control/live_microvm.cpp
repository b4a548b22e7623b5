#include "control/live_microvm.h"

#include <algorithm>

namespace firebreak::control {
namespace {

using core::MicrovmState;

constexpr std::uint64_t kMib = 1024UL * 1024;

}  // namespace

std::uint64_t to_mib(std::uint64_t bytes) {
  return (bytes + kMib - 1) / kMib;
}

core::HostUse use_of(const LiveMicrovm& vm) {
  if (!vm.has_process()) return {};
  return {// One that just starts has not been measured yet.
          .resident_mib = std::max(core::kLaunchMib, to_mib(vm.used.memory_bytes)),
          .baseline_mib = vm.size().memory_mib,
          .baseline_millicpu = vm.size().baseline_millicpu};
}

bool LiveMicrovm::is_under_way() const {
  switch (record_.state) {
    case MicrovmState::suspending:
      return true;
    case MicrovmState::running:
    case MicrovmState::suspended:
      return unended_ || record_.intent != core::Intent::none;
    case MicrovmState::pending:
      return unended_.has_value();
    case MicrovmState::terminating:
    case MicrovmState::terminated:
      return false;
  }
  return false;
}

}  // namespace firebreak::control
