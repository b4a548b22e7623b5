#include "image/oci_source.h"

namespace firebreak::image {
namespace {

constexpr int kMaxNesting = 4;

std::string blob_path(const std::string& digest) {
  return "blobs/sha256/" + digest.substr(digest.find(':') + 1);
}

Result<std::string> read_blob(const FileTree& tree, const OciDescriptor& descriptor,
                              const std::string& what) {
  FB_TRY_ASSIGN(const FileSpan blob, tree.open(blob_path(descriptor.digest)));
  auto text = blob.read_all(kMaxOciDocument);
  if (!text) return fail(text.error(), what);
  FB_TRY(check_digest(*text, descriptor.digest, what));
  return text;
}

}  // namespace

Result<OciImage> read_oci_layout(const FileTree& tree, const std::string& name) {
  FB_TRY_ASSIGN(const FileSpan top, tree.open("index.json"));
  auto text = top.read_all(kMaxOciDocument);
  if (!text) return fail(text.error(), "index.json");
  std::string wanted = name;
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    FB_TRY_ASSIGN(const auto document, parse_oci_document(*text));
    const auto* index = std::get_if<OciIndex>(&document);
    if (index == nullptr) return fail(Code::invalid, "index.json is not an index of images");
    FB_TRY_ASSIGN(const OciDescriptor chosen, choose_manifest(*index, wanted));
    text = read_blob(tree, chosen, "the manifest of the image");
    if (!text) return std::unexpected(text.error());
    if (is_oci_index(chosen)) {
      wanted.clear();
      continue;
    }
    FB_TRY_ASSIGN(const auto inner, parse_oci_document(*text));
    const auto* manifest = std::get_if<OciManifest>(&inner);
    if (manifest == nullptr) return fail(Code::invalid, "an index of images says to be an image");
    FB_TRY_ASSIGN(const std::string config,
                  read_blob(tree, manifest->config, "the configuration of the image"));
    FB_TRY_ASSIGN(OciImage image, make_oci_image(*manifest, config));
    image.digest = chosen.digest;
    for (const OciLayer& layer : image.layers) {
      FB_TRY_ASSIGN(const FileSpan blob, tree.open(blob_path(layer.digest)));
      if (blob.size != layer.size)
        return fail(Code::corrupt,
                    "the layer " + layer.digest + " is damaged: it has " +
                        std::to_string(blob.size) + " bytes instead of " +
                        std::to_string(layer.size),
                    Repair{"copy the image anew"});
    }
    return image;
  }
  return fail(Code::invalid, "its indexes are nested too deeply");
}

net::Task<Result<FileSpan>> LayoutBlobs::open(std::string digest, Deadline) {
  co_return tree_->open(blob_path(digest));
}

}  // namespace firebreak::image
