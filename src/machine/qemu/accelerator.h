// What runs the guest's instructions. Values; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/isolation.h"

namespace firebreak::machine {

enum class Accelerator : std::uint8_t { kvm, tcg };
std::string_view to_string(Accelerator accelerator);
// QEMU makes no security promise for TCG, so there the jail must hold alone.
core::Isolation isolation_of(Accelerator accelerator);

}  // namespace firebreak::machine
