// The library that QEMU's jail loads first (shim/ram_shim.cpp), which this program carries inside.
// Kept as a file in the data directory, where programs may be executed. Blocking; any thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::machine {

// A descriptor of the file below `data_dir`, which is written if it is missing or another.
Result<UniqueFd> open_ram_shim(const std::string& data_dir);

}  // namespace firebreak::machine
