#include "machine/qemu/ram_shim.h"

#include <string_view>

#include "base/sys.h"
#include "machine/hash.h"

// NOLINTNEXTLINE(hicpp-no-assembler): the bytes of a file, between two names
asm(".section .rodata\n"
    ".global firebreak_ram_shim\n"
    "firebreak_ram_shim: .incbin \"" FIREBREAK_RAM_SHIM
    "\"\n"
    ".global firebreak_ram_shim_end\n"
    "firebreak_ram_shim_end:\n"
    ".previous\n");
extern "C" const char firebreak_ram_shim[];
extern "C" const char firebreak_ram_shim_end[];

namespace firebreak::machine {

Result<UniqueFd> open_ram_shim(const std::string& data_dir) {
  const std::string_view bytes(
      firebreak_ram_shim, static_cast<std::size_t>(firebreak_ram_shim_end - firebreak_ram_shim));
  Sha256 hash;
  hash.update(bytes);
  const std::string directory = data_dir + "/runtime";
  const std::string path = directory + "/ram-shim-" + hash.hex().substr(0, 16) + ".so";
  if (const auto kept = sys::read_file(path, 1 << 20); !kept || *kept != bytes) {
    FB_TRY(sys::mkdirs(directory, 0755));
    FB_TRY(sys::replace_file(path, bytes, 0444));
  }
  return sys::open(path, O_RDONLY);
}

}  // namespace firebreak::machine
