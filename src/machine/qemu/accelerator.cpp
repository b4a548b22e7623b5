#include "machine/qemu/accelerator.h"

namespace firebreak::machine {

std::string_view to_string(Accelerator accelerator) {
  return accelerator == Accelerator::kvm ? "kvm" : "tcg";
}

core::Isolation isolation_of(Accelerator accelerator) {
  return accelerator == Accelerator::kvm ? core::Isolation::hardware : core::Isolation::emulated;
}

}  // namespace firebreak::machine
