// A saved machine's file and a process's memory map: what is accepted lies within the bounds that
// apply_saved relies on.
#include <cstdlib>

#include "machine/qemu/saved_memory.h"

namespace {

void check_saved(std::string_view bytes, std::uint64_t file_size) {
  const auto saved = firebreak::machine::parse_saved(bytes, file_size);
  if (!saved) {
    if (saved.error().code != firebreak::Code::corrupt) std::abort();
    return;
  }
  std::uint64_t last_end = 0;
  std::uint64_t total = 0;
  for (const auto& run : saved->runs) {
    if (run.length == 0 || run.offset < last_end || run.offset % 4096 != 0 ||
        run.length % 4096 != 0)
      std::abort();
    last_end = run.offset + run.length;
    if (last_end < run.offset || last_end > saved->ram_size) std::abort();
    total += run.length;
  }
  if (saved->pages_offset % 4096 != 0) std::abort();
  if (!saved->runs.empty() && saved->pages_offset + total != file_size) std::abort();
}

}  // namespace

// The first bytes choose how long the file says it is and what is looked for in the map.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kPrefix = 2;
  if (size < kPrefix) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + kPrefix, size - kPrefix);
  check_saved(bytes, bytes.size());
  check_saved(bytes, (std::uint64_t{data[0]} << 8 | data[1]) * 4096);
  (void)firebreak::machine::parse_ram_mapping(bytes, data[0], std::uint64_t{data[1]} << 12);
  return 0;
}
