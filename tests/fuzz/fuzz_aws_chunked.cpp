// Any bytes: the decoder gives the same for every chunking, and never more than was declared.
#include <cstdlib>

#include "wire/aws_chunked.h"

namespace {

struct Decoded {
  std::string out;
  bool good = true;
  bool done = false;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded decode(std::string_view body, std::size_t piece, bool trailer, std::uint64_t length) {
  Decoded decoded;
  firebreak::wire::AwsChunkedDecoder decoder({.trailer = trailer}, length);
  for (std::size_t at = 0; decoded.good && at < body.size(); at += piece)
    decoded.good = decoder.feed(body.substr(at, piece), decoded.out).has_value();
  if (decoded.out.size() > length) std::abort();
  decoded.done = decoded.good && decoder.done();
  if (decoded.done && decoded.out.size() != length) std::abort();
  return decoded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool trailer = data[0] >= 128;
  const Decoded whole = decode(body, body.size() + 1, trailer, data[1]);
  const Decoded pieces = decode(body, 1 + (data[0] % 31), trailer, data[1]);
  // Where it failed is the same; what came out before may be cut differently.
  if (whole.good != pieces.good || whole.done != pieces.done) std::abort();
  if (whole.good && whole != pieces) std::abort();
  return 0;
}
