// Documents of OCI images and names of images: any text is refused, or is a value within the
// limits whose parts reach file names and programs in safe letters only.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/image_reference.h"
#include "image/oci_layout.h"

namespace {

using namespace firebreak;
using namespace firebreak::image;

constexpr std::string_view kSafe =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:[]";

void check(bool good) {
  if (!good) std::abort();
}

void check_documents(std::string_view text) {
  const auto document = parse_oci_document(text);
  if (!document) return;
  if (const auto* index = std::get_if<OciIndex>(&*document)) {
    for (const std::string_view name : {"", "latest"})
      if (const auto chosen = choose_manifest(*index, name)) check(is_digest(chosen->digest));
    return;
  }
  const auto& manifest = std::get<OciManifest>(*document);
  check(is_digest(manifest.config.digest));
  const auto image = make_oci_image(
      manifest, R"({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": []}})");
  check(!image || image->layers.size() == manifest.layers.size());
}

void check_config(std::string_view text) {
  const auto image = make_oci_image({}, text);
  if (!image) return;
  check(image->layers.empty());
  check(image->config.workdir.empty() || image->config.workdir.starts_with('/'));
}

void check_names(std::string_view text) {
  if (const auto name = parse_registry_reference(text)) {
    for (const std::string* part : {&name->host, &name->path, &name->tag})
      check(part->find_first_not_of(kSafe) == std::string::npos && !part->starts_with('-'));
    check(name->digest.empty() || is_digest(name->digest));
    check(!name->path.empty() && !name->path.contains(':'));
  }
  if (const auto registries = parse_registries(text))
    for (const RegistryHost& each : *registries)
      check(each.host.find_first_not_of(kSafe) == std::string::npos && !each.host.contains('/'));
  if (const auto layout = parse_layout_reference(text); layout && *layout)
    check(!("/" + (*layout)->path + "/").contains("/../"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_documents(text);
  check_config(text);
  check_names(text);
  return 0;
}
