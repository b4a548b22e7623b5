// Makes an empty qcow2 file without starting a process. It names no backing file: what it is an
// overlay of is said on QEMU's command line, never by the file. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace firebreak::machine {

Result<> create_qcow2(const std::string& path, std::uint64_t virtual_size);
// The bytes of such a file; pure.
std::string empty_qcow2(std::uint64_t virtual_size);

}  // namespace firebreak::machine
