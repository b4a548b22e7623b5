// The documents of an OCI image: index, manifest, configuration, also in the words that registries
// used before. Sans-I/O: texts in, values out. Callers check a blob's digest before they pass its
// text. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/image_config.h"
#include "wire/decompress.h"

namespace firebreak::image {

inline constexpr std::size_t kMaxOciDocument = std::size_t{1} << 20;

// Of layers and other blobs.
struct OciDescriptor {
  std::string media_type;
  std::string digest;  // "sha256:" and 64 hex digits
  std::uint64_t size = 0;
  std::string platform;  // "linux/amd64"; empty: not said
  std::string name;      // how an index calls it; often empty
  friend bool operator==(const OciDescriptor&, const OciDescriptor&) = default;
};

struct OciIndex {
  std::vector<OciDescriptor> manifests;
};
struct OciManifest {
  OciDescriptor config;
  std::vector<OciDescriptor> layers;  // bottom first
};

// What a manifest's digest or a tag leads to: Code::invalid for anything else.
Result<std::variant<OciIndex, OciManifest>> parse_oci_document(std::string_view text);

// The image that is meant: by its name, or the only one; of several, the one for linux/amd64.
// not_found and invalid say what there is.
Result<OciDescriptor> choose_manifest(const OciIndex& index, std::string_view name);
bool is_oci_index(const OciDescriptor& descriptor);

struct OciLayer {
  std::string digest;   // of the blob
  std::string diff_id;  // of what is in it: "sha256:" and 64 hex digits
  std::uint64_t size = 0;
  wire::Compression compression = wire::Compression::none;
  friend bool operator==(const OciLayer&, const OciLayer&) = default;
};

struct OciImage {
  std::string digest;  // of the manifest
  ImageConfig config;
  std::vector<OciLayer> layers;
};

// Manifest and configuration put together: an image for this machine, with layers that can be read.
Result<OciImage> make_oci_image(const OciManifest& manifest, std::string_view config);

// "sha256:" and 64 hex digits in lower case.
bool is_digest(std::string_view text);
std::string digest_of(std::string_view bytes);
// Code::corrupt if the bytes are not what the digest says. `what` for the message.
Result<> check_digest(std::string_view bytes, std::string_view digest, std::string_view what);

}  // namespace firebreak::image
