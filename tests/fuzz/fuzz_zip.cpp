// Any bytes as a zip archive: refused, or entries that lie inside it, do not overlap, and give
// exactly what they announce.
#include <cstdlib>

#include "wire/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const wire::ZipLimits limits{.max_entries = 100, .max_bytes = 1 << 20};
  const auto archive = wire::ZipArchive::open(bytes, limits);
  if (!archive) {
    if (archive.error().code != Code::invalid && archive.error().code != Code::exhausted)
      std::abort();
    return 0;
  }
  std::uint64_t packed = 0;
  for (const wire::ZipEntry& entry : archive->entries()) {
    if (entry.path.empty() || entry.data_at > size || entry.packed_size > size - entry.data_at)
      std::abort();
    packed += entry.packed_size;
    std::uint64_t total = 0;
    const auto done = archive->extract(entry, [&](std::string_view piece) -> Result<> {
      total += piece.size();
      return {};
    });
    if (total > entry.size || (done && total != entry.size)) std::abort();
  }
  if (packed > size) std::abort();
  return 0;
}
