#include "machine/engine.h"

#include "base/sys.h"

namespace firebreak::machine {

std::string_view to_string(Accelerator accelerator) {
  return accelerator == Accelerator::kvm ? "kvm" : "tcg";
}

std::string_view to_string(Isolation isolation) {
  return isolation == Isolation::hardware ? "hardware" : "emulated";
}

Identity fresh_identity(const std::string& machine_id, std::uint64_t generation) {
  return {.hostname = machine_id,
          .machine_id = sys::random_hex(16),
          .generation = generation,
          .network = std::nullopt,
          .metadata = {{"instance_id", machine_id}}};
}

}  // namespace firebreak::machine
