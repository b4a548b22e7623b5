#include "wire/decompress.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>

namespace firebreak::wire {
namespace {

constexpr std::size_t kPiece = std::size_t{64} * 1024;
// Of xz's dictionary: its presets need at most 65 MiB.
constexpr std::uint64_t kMaxMemory = std::uint64_t{96} << 20;

using Output = Decompressor::Output;

std::unexpected<Error> damaged(std::string_view kind) {
  return fail(Code::invalid, "the " + std::string(kind) + " data is damaged");
}

class Plain final : public Decompressor::Codec {
 public:
  Result<> feed(std::string_view bytes, const Output& output) override { return output(bytes); }
  Result<bool> complete(const Output&) override { return true; }
};

class Gzip final : public Decompressor::Codec {
 public:
  Gzip() {
    ::inflateInit2(&stream_, 15 + 16);  // cannot fail but for memory
  }
  ~Gzip() override { ::inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Result<> feed(std::string_view bytes, const Output& output) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    while (stream_.avail_in > 0) {
      if (ended_) {
        // Members may follow each other; from the first zero on there is only padding.
        padding_ = padding_ || *stream_.next_in == 0;
        if (padding_) return {};
        if (::inflateReset(&stream_) != Z_OK) return damaged("gzip");
        ended_ = false;
      }
      FB_TRY(step(output));
    }
    return {};
  }
  Result<bool> complete(const Output&) override { return ended_; }

 private:
  Result<> step(const Output& output) {
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_out = static_cast<uInt>(piece_.size());
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      ended_ = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return damaged("gzip");
      FB_TRY(output({piece_.data(), piece_.size() - stream_.avail_out}));
    } while (!ended_ && stream_.avail_out == 0);
    return {};
  }

  z_stream stream_{};
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
    if (!ready_) return fail(Code::exhausted, "there is no memory for xz data");
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    do {
      stream_.next_out = reinterpret_cast<std::uint8_t*>(piece_.data());
      stream_.avail_out = piece_.size();
      const lzma_ret status = ::lzma_code(&stream_, action);
      if (status == LZMA_MEMLIMIT_ERROR)
        return fail(Code::invalid, "the xz data needs too much memory; compress it with xz -6");
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

class Bzip2 final : public Decompressor::Codec {
 public:
  Bzip2() { ::BZ2_bzDecompressInit(&stream_, 0, 0); }
  ~Bzip2() override { ::BZ2_bzDecompressEnd(&stream_); }
  Bzip2(const Bzip2&) = delete;
  Bzip2& operator=(const Bzip2&) = delete;

  Result<> feed(std::string_view bytes, const Output& output) override {
    stream_.next_in = const_cast<char*>(bytes.data());
    stream_.avail_in = static_cast<unsigned>(bytes.size());
    while (stream_.avail_in > 0) {
      if (ended_) {
        // As with gzip, one stream may follow another.
        ::BZ2_bzDecompressEnd(&stream_);
        if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) return damaged("bzip2");
        ended_ = false;
      }
      FB_TRY(step(output));
    }
    return {};
  }
  Result<bool> complete(const Output&) override { return ended_; }

 private:
  Result<> step(const Output& output) {
    do {
      stream_.next_out = piece_.data();
      stream_.avail_out = static_cast<unsigned>(piece_.size());
      const int status = ::BZ2_bzDecompress(&stream_);
      ended_ = status == BZ_STREAM_END;
      if (status != BZ_OK && status != BZ_STREAM_END) return damaged("bzip2");
      FB_TRY(output({piece_.data(), piece_.size() - stream_.avail_out}));
    } while (!ended_ && stream_.avail_out == 0);
    return {};
  }

  bz_stream stream_{};
  bool ended_ = false;
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
  return Compression::none;
}

Decompressor::Decompressor(Output output) : output_(std::move(output)) {}
Decompressor::~Decompressor() = default;

Result<> Decompressor::start() {
  switch (recognise_compression(begin_)) {
    case Compression::gzip:
      codec_ = std::make_unique<Gzip>();
      break;
    case Compression::xz:
      codec_ = std::make_unique<Xz>();
      break;
    case Compression::bzip2:
      codec_ = std::make_unique<Bzip2>();
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
