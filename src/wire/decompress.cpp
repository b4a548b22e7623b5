#include "wire/decompress.h"

#include <algorithm>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace firebreak::wire {
namespace {

constexpr std::size_t kPiece = std::size_t{64} * 1024;
// Of xz's dictionary: its presets need at most 65 MiB.
constexpr std::uint64_t kMaxMemory = std::uint64_t{96} << 20;

// Of zstd's window, as a power of two: 128 MiB, what its own program takes unasked.
constexpr int kMaxWindow = 27;
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";

using Output = Decompressor::Output;

std::unexpected<Error> damaged(std::string_view kind) {
  return fail(Code::invalid, "the " + std::string(kind) + " data is damaged");
}

std::unexpected<Error> no_memory(std::string_view kind) {
  return fail(Code::exhausted, "there is no memory for " + std::string(kind) + " data");
}

class Plain final : public Decompressor::Codec {
 public:
  Result<> feed(std::string_view bytes, const Output& output) override { return output(bytes); }
  Result<bool> complete(const Output&) override { return true; }
};

enum class Step { more, ended, damaged };

// What the two libraries that take one member at a time have in common, but for their names.
struct Zlib {
  using Stream = z_stream;
  static constexpr std::string_view kName = "gzip";
  static constexpr bool kPadded = true;  // a zero behind a member is padding, and so is the rest
  static bool begin(Stream& stream) { return ::inflateInit2(&stream, 15 + 16) == Z_OK; }
  static void end(Stream& stream) { ::inflateEnd(&stream); }
  static Step step(Stream& stream) {
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) return Step::ended;
    return status == Z_OK || status == Z_BUF_ERROR ? Step::more : Step::damaged;
  }
};

struct Bzlib {
  using Stream = bz_stream;
  static constexpr std::string_view kName = "bzip2";
  static constexpr bool kPadded = false;
  static bool begin(Stream& stream) { return ::BZ2_bzDecompressInit(&stream, 0, 0) == BZ_OK; }
  static void end(Stream& stream) { ::BZ2_bzDecompressEnd(&stream); }
  static Step step(Stream& stream) {
    const int status = ::BZ2_bzDecompress(&stream);
    if (status == BZ_STREAM_END) return Step::ended;
    return status == BZ_OK ? Step::more : Step::damaged;
  }
};

// Members one after the other.
template <class Library>
class Members final : public Decompressor::Codec {
 public:
  Members() : ready_(Library::begin(stream_)) {}
  ~Members() override { Library::end(stream_); }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  Result<> feed(std::string_view bytes, const Output& output) override {
    if (!ready_) return no_memory(Library::kName);
    stream_.next_in = reinterpret_cast<decltype(stream_.next_in)>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<unsigned>(bytes.size());
    while (stream_.avail_in > 0) {
      if (ended_) {
        padding_ = padding_ || (Library::kPadded && *stream_.next_in == 0);
        if (padding_) return {};
        FB_TRY(begin_again());
      }
      FB_TRY(step(output));
    }
    return {};
  }
  Result<bool> complete(const Output&) override { return ended_; }

 private:
  Result<> begin_again() {
    auto* const in = stream_.next_in;
    const unsigned left = stream_.avail_in;
    Library::end(stream_);
    stream_ = {};
    ready_ = Library::begin(stream_);
    if (!ready_) return no_memory(Library::kName);
    stream_.next_in = in;
    stream_.avail_in = left;
    ended_ = false;
    return {};
  }

  Result<> step(const Output& output) {
    do {
      stream_.next_out = reinterpret_cast<decltype(stream_.next_out)>(piece_.data());
      stream_.avail_out = static_cast<unsigned>(piece_.size());
      const Step status = Library::step(stream_);
      if (status == Step::damaged) return damaged(Library::kName);
      ended_ = status == Step::ended;
      FB_TRY(output({piece_.data(), piece_.size() - stream_.avail_out}));
    } while (!ended_ && stream_.avail_out == 0);
    return {};
  }

  typename Library::Stream stream_{};
  bool ready_;
  bool ended_ = false;
  bool padding_ = false;
  std::string piece_ = std::string(kPiece, '\0');
};

class Xz final : public Decompressor::Codec {
 public:
  Xz() : ready_(::lzma_stream_decoder(&stream_, kMaxMemory, LZMA_CONCATENATED) == LZMA_OK) {}
  ~Xz() override { ::lzma_end(&stream_); }
  Xz(const Xz&) = delete;
  Xz& operator=(const Xz&) = delete;

  Result<> feed(std::string_view bytes, const Output& output) override {
    return run(bytes, LZMA_RUN, output);
  }
  // Only the end of the input tells that no further stream follows.
  Result<bool> complete(const Output& output) override {
    if (!ended_) FB_TRY(run({}, LZMA_FINISH, output));
    return ended_;
  }

 private:
  Result<> run(std::string_view bytes, lzma_action action, const Output& output) {
    if (!ready_) return no_memory("xz");
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    do {
      stream_.next_out = reinterpret_cast<std::uint8_t*>(piece_.data());
      stream_.avail_out = piece_.size();
      const lzma_ret status = ::lzma_code(&stream_, action);
      if (status == LZMA_MEMLIMIT_ERROR)
        return fail(Code::invalid, "the xz data needs too much memory",
                    Repair{"compress it with xz -6"});
      if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
        return damaged("xz");
      FB_TRY(output({piece_.data(), piece_.size() - stream_.avail_out}));
      ended_ = status == LZMA_STREAM_END;
      if (status == LZMA_BUF_ERROR) break;
    } while (!ended_ && (stream_.avail_in > 0 || stream_.avail_out == 0));
    return {};
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_;
  bool ended_ = false;
  std::string piece_ = std::string(kPiece, '\0');
};

// Frames one after the other.
class Zstd final : public Decompressor::Codec {
 public:
  Zstd() : stream_(::ZSTD_createDStream()) {
    ready_ = stream_ != nullptr && ::ZSTD_isError(::ZSTD_DCtx_setParameter(
                                       stream_, ZSTD_d_windowLogMax, kMaxWindow)) == 0;
  }
  ~Zstd() override { ::ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Result<> feed(std::string_view bytes, const Output& output) override {
    if (!ready_) return no_memory("zstd");
    while (!bytes.empty()) {
      if (ended_) magic_.clear();
      // The magic number comes alone. It is looked at, because the library also knows formats of
      // the past; and a frame that comes whole would not be held against the limit of its window.
      const std::size_t missing = kMagic - magic_.size();
      const std::string_view some = bytes.substr(0, missing > 0 ? missing : bytes.size());
      if (missing > 0) magic_ += some;
      if (magic_.size() == kMagic && !known(magic_)) return damaged("zstd");
      FB_TRY_ASSIGN(const std::size_t taken, run(some, output));
      bytes.remove_prefix(taken);
    }
    return {};
  }
  Result<bool> complete(const Output&) override { return ended_; }

 private:
  static constexpr std::size_t kMagic = 4;

  // Of a frame, or of one to skip.
  static bool known(std::string_view magic) {
    return magic == kZstdMagic || ((magic[0] & 0xf0) == 0x50 && magic.substr(1) == "\x2a\x4d\x18");
  }
  // How many of the bytes were taken: all, or those up to the end of the frame.
  Result<std::size_t> run(std::string_view bytes, const Output& output) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool full = true; full || (in.pos < in.size && !ended_);) {
      ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
      const std::size_t status = ::ZSTD_decompressStream(stream_, &out, &in);
      if (::ZSTD_isError(status) != 0) return failure(status);
      FB_TRY(output({piece_.data(), out.pos}));
      ended_ = status == 0;
      full = !ended_ && out.pos == out.size;
    }
    return in.pos;
  }
  static std::unexpected<Error> failure(std::size_t status) {
    const ZSTD_ErrorCode code = ::ZSTD_getErrorCode(status);
    if (code == ZSTD_error_memory_allocation) return no_memory("zstd");
    if (code == ZSTD_error_frameParameter_windowTooLarge)
      return fail(Code::invalid, "the zstd data needs too much memory",
                  Repair{"compress it without --long, or --long=27"});
    return damaged("zstd");
  }

  ZSTD_DStream* stream_;
  bool ready_;
  bool ended_ = false;
  std::string magic_;  // of this frame, as far as it has come
  std::string piece_ = std::string(kPiece, '\0');
};

}  // namespace

Compression recognise_compression(std::string_view begin) {
  using namespace std::string_view_literals;
  if (begin.starts_with("\x1f\x8b"sv)) return Compression::gzip;
  if (begin.starts_with("\xfd"
                        "7zXZ\0"sv))
    return Compression::xz;
  if (begin.starts_with("BZh"sv)) return Compression::bzip2;
  if (begin.starts_with(kZstdMagic)) return Compression::zstd;
  return Compression::none;
}

Decompressor::Decompressor(Output output) : output_(std::move(output)) {}
Decompressor::~Decompressor() = default;

Result<> Decompressor::start() {
  switch (recognise_compression(begin_)) {
    case Compression::gzip:
      codec_ = std::make_unique<Members<Zlib>>();
      break;
    case Compression::xz:
      codec_ = std::make_unique<Xz>();
      break;
    case Compression::bzip2:
      codec_ = std::make_unique<Members<Bzlib>>();
      break;
    case Compression::zstd:
      codec_ = std::make_unique<Zstd>();
      break;
    case Compression::none:
      codec_ = std::make_unique<Plain>();
      break;
  }
  return codec_->feed(std::exchange(begin_, {}), output_);
}

Result<> Decompressor::feed(std::string_view bytes) {
  if (codec_) return codec_->feed(bytes, output_);
  begin_.append(bytes);
  return begin_.size() < kCompressionMagic ? Result<>() : start();
}

Result<> Decompressor::finish() {
  if (!codec_) FB_TRY(start());
  FB_TRY_ASSIGN(const bool complete, codec_->complete(output_));
  if (!complete) return fail(Code::invalid, "the compressed data is cut off");
  return {};
}

}  // namespace firebreak::wire
