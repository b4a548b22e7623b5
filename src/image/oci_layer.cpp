#include "image/oci_layer.h"

#include <algorithm>

#include "base/text.h"
#include "image/tar_repacker.h"
#include "machine/hash.h"
#include "wire/decompress.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kPiece = std::size_t{16} * 1024;
// What is taken apart at once: small, because four bytes of zstd may become 128 KiB.
constexpr std::size_t kBite = 512;
constexpr std::size_t kOutput = std::size_t{256} * 1024;
constexpr std::string_view kWhiteout = ".wh.";

bool is_whiteout(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with(kWhiteout);
}

std::unexpected<Error> damaged(const std::string& digest) {
  return fail(Code::corrupt, "a layer is damaged: its content is not " + digest,
              Repair{"copy the image anew"});
}

// Looks at every entry, and keeps nothing but the whiteouts.
class Inspector final : public wire::TarReader::Sink {
 public:
  Inspector(const LayerLimits& limits, CheckedLayer& layer) : limits_(limits), layer_(layer) {}

  Result<> feed(std::string_view bytes) {
    bytes_ += bytes.size();
    if (bytes_ > limits_.max_bytes)
      return fail(Code::exhausted, "a layer has more than " + std::to_string(limits_.max_bytes) +
                                       " bytes when it is unpacked");
    hash_.update(bytes);
    return reader_.feed(bytes);
  }
  Result<> finish() { return reader_.finish(); }
  std::string diff_id() { return "sha256:" + hash_.hex(); }

 private:
  Result<> check_path(const std::string& path) const {
    if (path.size() > limits_.max_path)
      return fail(Code::invalid, "a layer holds a path of more than " +
                                     std::to_string(limits_.max_path) + " bytes");
    const auto parts = split(path, '/');
    if (std::ranges::find(parts, "..") != parts.end())
      return fail(Code::invalid,
                  "a layer holds " + quoted_path(path) + ", a path that leads out of it");
    return {};
  }
  Result<> on_entry(const wire::TarEntry& entry) override {
    if (++entries_ > limits_.max_entries)
      return fail(Code::exhausted,
                  "a layer has more than " + std::to_string(limits_.max_entries) + " entries");
    FB_TRY(check_path(entry.path));
    if (entry.type == wire::TarType::hardlink) FB_TRY(check_path(entry.link_target));
    if (entry.type == wire::TarType::device) ++layer_.devices;
    if (!is_whiteout(entry.path)) return {};
    whiteouts_ += entry.path.size();
    if (whiteouts_ > limits_.max_whiteouts)
      return fail(Code::exhausted, "a layer removes more than can be kept in mind");
    layer_.whiteouts.push_back(entry.path);
    return {};
  }
  Result<> on_data(std::string_view) override { return {}; }
  Result<> on_entry_end() override { return {}; }

  const LayerLimits& limits_;
  CheckedLayer& layer_;
  std::uint64_t bytes_ = 0;
  std::uint64_t entries_ = 0;
  std::size_t whiteouts_ = 0;
  machine::Sha256 hash_;
  wire::TarReader reader_{*this};
};

}  // namespace

Result<CheckedLayer> check_layer(FileSpan blob, const OciLayer& layer, const LayerLimits& limits,
                                 Deadline deadline) {
  if (blob.size != layer.size) return damaged(layer.digest);
  // The blob first: nothing takes apart what is not what was asked for.
  machine::Sha256 packed;
  for (std::uint64_t at = 0; at < blob.size;) {
    FB_TRY_ASSIGN(const std::string bytes, blob.read(at, kOutput));
    packed.update(bytes);
    at += bytes.size();
    if (deadline.passed()) return fail(Code::timeout, "reading a layer took too long");
  }
  if ("sha256:" + packed.hex() != layer.digest) return damaged(layer.digest);

  CheckedLayer out{.blob = std::move(blob)};
  FB_TRY_ASSIGN(const std::string begin, out.blob.read(0, wire::kCompressionMagic));
  if (wire::recognise_compression(begin) != layer.compression)
    return fail(Code::invalid, "a layer is compressed in another way than its type says");
  Inspector inspector(limits, out);
  wire::Decompressor decompressor(
      [&inspector](std::string_view bytes) { return inspector.feed(bytes); });
  for (std::uint64_t at = 0; at < out.blob.size;) {
    FB_TRY_ASSIGN(const std::string bytes, out.blob.read(at, kPiece));
    FB_TRY(decompressor.feed(bytes));
    at += bytes.size();
    if (deadline.passed()) return fail(Code::timeout, "reading a layer took too long");
  }
  FB_TRY(decompressor.finish());
  if (const std::string content = inspector.diff_id(); content != layer.diff_id)
    return fail(Code::corrupt,
                "a layer holds something else than the image's configuration says: "
                "not " +
                    layer.diff_id,
                Repair{"copy the image anew"});
  FB_TRY(inspector.finish());
  return out;
}

// --------------------------------------------------------------------------------------- packing

class LayerStream::Packer final : private TarRepacker {
 public:
  explicit Packer(CheckedLayer layer) : layer_(std::move(layer)) {}

  Result<std::string> next() {
    for (; whiteout_ < layer_.whiteouts.size() && ready() < kOutput; ++whiteout_)
      FB_TRY(add_empty({.path = layer_.whiteouts[whiteout_]}));
    while (ready() < kOutput && !finished_) {
      if (bitten_ == input_.size()) {
        FB_TRY_ASSIGN(input_, layer_.blob.read(at_, kPiece));
        at_ += input_.size();
        bitten_ = 0;
      }
      if (!input_.empty()) {
        const std::string_view bite = std::string_view(input_).substr(bitten_, kBite);
        bitten_ += bite.size();
        FB_TRY(decompressor_.feed(bite));
        continue;
      }
      FB_TRY(decompressor_.finish());
      FB_TRY(finish());
      finished_ = true;
    }
    return take();
  }

 private:
  std::optional<wire::TarEntry> entry_for(const wire::TarEntry& entry) override {
    if (entry.type == wire::TarType::device || is_whiteout(entry.path)) return std::nullopt;
    wire::TarEntry as = entry;
    if (as.path == "/") as.path = ".";
    return as;
  }

  CheckedLayer layer_;
  std::size_t whiteout_ = 0;
  std::uint64_t at_ = 0;  // in the blob
  std::string input_;     // what was read of it last
  std::size_t bitten_ = 0;
  bool finished_ = false;
  wire::Decompressor decompressor_{[this](std::string_view bytes) { return feed(bytes); }};
};

LayerStream::LayerStream(CheckedLayer layer)
    : packer_(std::make_unique<Packer>(std::move(layer))) {}
LayerStream::~LayerStream() = default;

Result<std::string> LayerStream::next() {
  return packer_->next();
}

}  // namespace firebreak::image
