// Messages of a context's kernel: pieces taken from any bytes are, put together, those bytes again,
// and no piece is larger than promised.
#include <cstdlib>

#include "guest/kernel_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::guest;
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0];
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  KernelDecoder decoder;
  std::string bodies;
  std::size_t headers = 0;
  bool open = false;
  for (std::size_t at = 0; at < input.size(); at += step) {
    decoder.feed(input.substr(at, step));
    for (;;) {
      auto piece = decoder.next();
      if (!piece && decoder.next()) std::abort();
      if (!piece || !*piece) break;
      if ((*piece)->first == open) std::abort();
      if ((*piece)->bytes.size() > kKernelPiece) std::abort();
      if (!(*piece)->last && (*piece)->bytes.size() != kKernelPiece) std::abort();
      open = !(*piece)->last;
      headers += (*piece)->first ? 1 : 0;
      bodies += (*piece)->bytes;
    }
  }
  if (bodies.size() + headers * 9 > input.size()) std::abort();
  return 0;
}
