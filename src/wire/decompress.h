// Takes a compressed stream apart, whatever of the usual kinds it is: gzip, xz, bzip2, zstd,
// or none. Sans-I/O; memory is bounded, the size of the output is the caller's matter. One object a
// stream; single thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

enum class Compression { none, gzip, xz, bzip2, zstd };
// By the first bytes; kCompressionMagic of them are enough.
inline constexpr std::size_t kCompressionMagic = 6;
Compression recognise_compression(std::string_view begin);

class Decompressor {
 public:
  // Gets the output in pieces; an error ends the stream and is what feed() returns.
  using Output = std::function<Result<>(std::string_view bytes)>;

  explicit Decompressor(Output output);
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor();

  // Code::invalid for damaged data. After an error nothing more may be given.
  Result<> feed(std::string_view bytes);
  // No more bytes will come: Code::invalid if the stream stops early.
  Result<> finish();

  // One kind of stream.
  class Codec {
   public:
    Codec() = default;
    Codec(const Codec&) = delete;
    Codec& operator=(const Codec&) = delete;
    virtual ~Codec() = default;
    virtual Result<> feed(std::string_view bytes, const Output& output) = 0;
    // No more input will come: whether it was whole.
    virtual Result<bool> complete(const Output& output) = 0;
  };

 private:
  Result<> start();

  Output output_;
  std::string begin_;  // until the kind is known
  std::unique_ptr<Codec> codec_;
};

}  // namespace firebreak::wire
