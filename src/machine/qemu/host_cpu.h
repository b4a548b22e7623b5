// Which CPU this is, as far as a guest on KVM can tell. Part of the snapshot key: such a guest sees
// the host's CPU and goes on using the instructions that it found when it booted. Any thread.
#pragma once

#include <string>

namespace firebreak::machine {

// Name, signature (family, model, stepping) and a hash of the features. Asks the CPU, not the
// kernel: a newer kernel on the same CPU changes nothing, microcode that takes a feature away does.
std::string host_cpu();

}  // namespace firebreak::machine
