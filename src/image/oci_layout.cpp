#include "image/oci_layout.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "image/image_config_json.h"
#include "wire/crypto.h"
#include "wire/path_pattern.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMaxManifests = 1000;
constexpr std::size_t kMaxLayers = 127;
constexpr std::uint64_t kMaxLayerBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMaxImageBytes = std::uint64_t{8} << 30;
constexpr std::size_t kShownNames = 10;
constexpr std::string_view kPlatform = "linux/amd64";
constexpr std::string_view kNameAnnotation = "org.opencontainers.image.ref.name";

constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kListType = "application/vnd.docker.distribution.manifest.list.v2+json";

// Text of strangers for a message.
std::string shown(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 80))
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  return out + "'";
}

Result<OciDescriptor> read_descriptor(const json::value& value, const std::string& path) {
  if (!value.is_object()) return fail(Code::invalid, "member '" + path + "' must be an object");
  JsonReader reader(value.as_object(), path + ".");
  OciDescriptor out{.media_type = reader.string("mediaType"),
                    .digest = reader.string("digest"),
                    .size = reader.u64("size")};
  const json::array* urls = reader.array("urls", false);
  const json::object* platform = reader.object("platform", false);
  const json::object* annotations = reader.object("annotations", false);
  FB_TRY(reader.result());
  if (!is_digest(out.digest))
    return fail(Code::invalid, shown(out.digest) + " is not a digest of the kind sha256");
  // Whoever fetched it would go wherever the image says.
  if (urls != nullptr && !urls->empty())
    return fail(Code::invalid, "the image has content that lies elsewhere ('urls')");
  if (platform != nullptr) {
    JsonReader parts(*platform, path + ".platform.");
    out.platform = parts.string_or("os", "") + "/" + parts.string_or("architecture", "");
    FB_TRY(parts.result());
  }
  if (annotations != nullptr) {
    if (const json::value* name = annotations->if_contains(kNameAnnotation))
      if (name->is_string()) out.name = name->as_string();
  }
  return out;
}

Result<std::vector<OciDescriptor>> read_descriptors(const json::array& list, const char* name,
                                                    std::size_t most) {
  if (list.size() > most)
    return fail(Code::exhausted, "the image has more than " + std::to_string(most) + " " + name);
  std::vector<OciDescriptor> out;
  for (const json::value& item : list) {
    FB_TRY_ASSIGN(OciDescriptor descriptor, read_descriptor(item, name));
    out.push_back(std::move(descriptor));
  }
  return out;
}

Result<wire::Compression> compression_of(const OciDescriptor& layer) {
  for (const std::string plain :
       {"application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"}) {
    if (layer.media_type == plain) return wire::Compression::none;
    if (layer.media_type == plain + "+gzip" || layer.media_type == plain + ".gzip")
      return wire::Compression::gzip;
    if (layer.media_type == plain + "+zstd" || layer.media_type == plain + ".zstd")
      return wire::Compression::zstd;
  }
  return fail(Code::invalid, "a layer has the type " + shown(layer.media_type),
              Repair{"only tar archives, plain or with gzip or zstd, are layers here"});
}

std::string names_of(const std::vector<OciDescriptor>& list) {
  std::string out;
  std::size_t count = 0;
  for (const OciDescriptor& each : list) {
    if (each.name.empty() || ++count > kShownNames) continue;
    out += (out.empty() ? "" : ", ") + shown(each.name);
  }
  return out.empty() ? "none has a name" : "there are " + out;
}

struct ReadConfig {
  ImageConfig config;
  std::vector<std::string> diff_ids;
};

Result<ReadConfig> read_config(std::string_view text) {
  // Arguments and variables are C strings in the end.
  if (text.contains("\\u0000"))
    return fail(Code::invalid, "the image's configuration holds a NUL character");
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader reader(object);
  const std::string platform = reader.string("os") + "/" + reader.string("architecture");
  const std::string author = reader.string_or("author", "");
  const json::object* config = reader.object("config", false);
  const json::object* rootfs = reader.object("rootfs", true);
  FB_TRY(reader.result());
  if (platform != kPlatform)
    return fail(Code::invalid,
                "the image is for " + shown(platform) + ", not for " + std::string(kPlatform),
                Repair{"take one that is"});
  ReadConfig out;
  if (config != nullptr) {
    FB_TRY_ASSIGN(out.config, config_from_json(*config));
  }
  if (!out.config.workdir.empty()) out.config.workdir = wire::clean_path("/" + out.config.workdir);
  if (!author.empty()) out.config.author = author;
  JsonReader layers(*rootfs, "rootfs.");
  out.diff_ids = layers.strings_or_empty("diff_ids");
  FB_TRY(layers.result());
  return out;
}

}  // namespace

bool is_digest(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  return text.size() == kPrefix.size() + 64 && text.starts_with(kPrefix) &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

std::string digest_of(std::string_view bytes) {
  return "sha256:" + wire::sha256_hex(bytes);
}

Result<> check_digest(std::string_view bytes, std::string_view digest, std::string_view what) {
  if (digest_of(bytes) == digest) return {};
  return fail(Code::corrupt,
              std::string(what) + " is damaged: its content is not " + std::string(digest),
              Repair{"copy the image anew"});
}

Result<std::variant<OciIndex, OciManifest>> parse_oci_document(std::string_view text) {
  if (text.size() > kMaxOciDocument)
    return fail(Code::exhausted,
                "a document of the image is larger than " + std::to_string(kMaxOciDocument));
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader reader(object);
  const std::uint64_t version = reader.u64("schemaVersion");
  const json::array* manifests = reader.array("manifests", false);
  const json::array* layers = reader.array("layers", false);
  const json::object* config = reader.object("config", false);
  FB_TRY(reader.result());
  if (version != 2)
    return fail(
        Code::invalid,
        "the image's manifest has version " + std::to_string(version) + ", which is not read here",
        Repair{"push the image again in OCI's format"});
  // One text must not be an index for one reader and an image for another.
  if ((manifests != nullptr) == (layers != nullptr))
    return fail(Code::invalid, "this is neither the index nor the manifest of an image");
  if (manifests != nullptr) {
    OciIndex index;
    FB_TRY_ASSIGN(index.manifests, read_descriptors(*manifests, "manifests", kMaxManifests));
    return index;
  }
  if (config == nullptr) return fail(Code::invalid, "the image's manifest names no configuration");
  OciManifest manifest;
  FB_TRY_ASSIGN(manifest.config, read_descriptor(*config, "config"));
  FB_TRY_ASSIGN(manifest.layers, read_descriptors(*layers, "layers", kMaxLayers));
  return manifest;
}

bool is_oci_index(const OciDescriptor& descriptor) {
  return descriptor.media_type == kIndexType || descriptor.media_type == kListType;
}

Result<OciDescriptor> choose_manifest(const OciIndex& index, std::string_view name) {
  std::vector<OciDescriptor> fitting;
  for (const OciDescriptor& each : index.manifests)
    if (name.empty() || each.name == name) fitting.push_back(each);
  if (fitting.empty() && name.empty()) return fail(Code::not_found, "there is no image in it");
  if (fitting.empty())
    return fail(Code::not_found, "there is no image " + shown(name) + " in it",
                Repair{names_of(index.manifests)});
  if (fitting.size() > 1)
    std::erase_if(fitting, [](const OciDescriptor& each) {
      return !each.platform.empty() && each.platform != kPlatform;
    });
  if (fitting.empty())
    return fail(Code::not_found, "there is no image for " + std::string(kPlatform) + " in it");
  if (fitting.size() > 1)
    return fail(Code::invalid, "there are several images in it",
                Repair{"add :NAME; " + names_of(fitting)});
  return fitting.front();
}

Result<OciImage> make_oci_image(const OciManifest& manifest, std::string_view config) {
  FB_TRY_ASSIGN(ReadConfig read, read_config(config));
  if (read.diff_ids.size() != manifest.layers.size())
    return fail(Code::invalid, "the image has " + std::to_string(manifest.layers.size()) +
                                   " layers, but its configuration speaks of " +
                                   std::to_string(read.diff_ids.size()));
  OciImage image{.config = std::move(read.config)};
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < manifest.layers.size(); ++i) {
    const OciDescriptor& layer = manifest.layers[i];
    if (!is_digest(read.diff_ids[i]))
      return fail(Code::invalid, shown(read.diff_ids[i]) + " is not a digest of the kind sha256");
    FB_TRY_ASSIGN(const wire::Compression compression, compression_of(layer));
    bytes += std::min(layer.size, kMaxImageBytes);
    if (layer.size > kMaxLayerBytes || bytes > kMaxImageBytes)
      return fail(Code::exhausted, "the image is larger than can be taken: a layer has at most " +
                                       std::to_string(kMaxLayerBytes) + " bytes, all of them " +
                                       std::to_string(kMaxImageBytes));
    image.layers.push_back({.digest = layer.digest,
                            .diff_id = std::move(read.diff_ids[i]),
                            .size = layer.size,
                            .compression = compression});
  }
  return image;
}

}  // namespace firebreak::image
