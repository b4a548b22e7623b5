// Records found on disk: refused as corrupt, or understood so well that writing them gives the same
// record again.
#include <cstdlib>

#include "machine/qemu/records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::machine;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto machine = parse_machine_record(text)) {
    const auto again = parse_machine_record(to_json_text(*machine));
    if (!again || *again != *machine) std::abort();
  } else if (machine.error().code != firebreak::Code::corrupt) {
    std::abort();
  }
  if (const auto snapshot = parse_snapshot_record(text)) {
    const auto again = parse_snapshot_record(to_json_text(*snapshot));
    if (!again || to_json_text(*again) != to_json_text(*snapshot)) std::abort();
  } else if (snapshot.error().code != firebreak::Code::corrupt) {
    std::abort();
  }
  return 0;
}
