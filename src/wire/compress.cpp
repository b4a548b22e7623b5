#include "wire/compress.h"

#include <new>

#include <zstd.h>

#include "wire/decompress.h"

namespace firebreak::wire {

std::string compress(std::string_view bytes) {
  constexpr int kLevel = 3;
  std::string out(::ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ::ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  if (::ZSTD_isError(size) != 0) throw std::bad_alloc();  // it fails for no other reason
  out.resize(size);
  return out;
}

Result<std::string> expand(std::string_view bytes, std::size_t most) {
  std::string out;
  Decompressor decompressor([&](std::string_view piece) -> Result<> {
    if (out.size() + piece.size() > most) return fail(Code::corrupt, "it is larger than it may be");
    out += piece;
    return {};
  });
  auto fed = decompressor.feed(bytes);
  if (fed) fed = decompressor.finish();
  if (!fed) return fail(Code::corrupt, "what was kept is damaged", fed.error().text());
  return out;
}

}  // namespace firebreak::wire
