// Frame decoder: frames taken from any bytes, in any pieces, are those bytes again when written.
#include <cstdlib>

#include "wire/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::wire;
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  FrameDecoder decoder;
  std::string again;
  for (std::size_t at = 0; at < input.size(); at += piece) {
    decoder.feed(input.substr(at, piece));
    for (;;) {
      auto frame = decoder.next();
      if (!frame && decoder.next()) std::abort();
      if (!frame || !*frame) break;
      put_frame((*frame)->type, (*frame)->payload, again);
    }
  }
  if (!input.starts_with(again)) std::abort();
  if (decoder.next() && decoder.empty() && again != input) std::abort();
  return 0;
}
