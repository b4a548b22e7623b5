// Any bytes as a compressed stream, in pieces: refused, or taken apart, and the same whatever the
// pieces are.
#include <cstdlib>

#include "wire/decompress.h"

namespace {

using namespace firebreak;

struct Outcome {
  bool fine = false;
  std::string out;
};

Outcome expand(std::string_view bytes, std::size_t piece) {
  Outcome outcome;
  bool full = false;
  wire::Decompressor decompressor([&](std::string_view some) -> Result<> {
    outcome.out += some;
    full = outcome.out.size() > (1 << 20);
    return full ? Result<>(fail(Code::exhausted, "enough")) : Result<>();
  });
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (auto fed = decompressor.feed(bytes.substr(at, piece)); !fed) {
      if (!full && fed.error().code != Code::invalid) std::abort();
      return outcome;
    }
  }
  outcome.fine = decompressor.finish().has_value();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = expand(bytes, size + 1);
  const Outcome parts = expand(bytes, 7);
  if (whole.fine != parts.fine || (whole.fine && whole.out != parts.out)) std::abort();
  return 0;
}
