// Names of images as FROM writes them: in a registry, or in an OCI layout; and which registries an
// operator allows. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::image {

// oci:PATH[:NAME] or oci-archive:PATH[:NAME]
struct LayoutReference {
  bool archive = false;
  std::string path;
  std::string name;  // of the image in it; empty: the only one
  bool absolute() const { return path.starts_with('/'); }
  friend bool operator==(const LayoutReference&, const LayoutReference&) = default;
};
// nullopt if it does not begin so; Code::invalid for an empty path, or one that leads up.
Result<std::optional<LayoutReference>> parse_layout_reference(std::string_view text);

// [HOST[:PORT]/]PATH[:TAG][@DIGEST]
struct RegistryReference {
  std::string host;  // with the port; empty: not said
  std::string path;
  std::string tag;
  std::string digest;
  friend bool operator==(const RegistryReference&, const RegistryReference&) = default;
};
Result<RegistryReference> parse_registry_reference(std::string_view text);

struct RegistryHost {
  std::string host;    // with the port
  bool plain = false;  // without TLS
  friend bool operator==(const RegistryHost&, const RegistryHost&) = default;
};
// "HOST[:PORT]" and "http://HOST[:PORT]", separated by commas.
Result<std::vector<RegistryHost>> parse_registries(std::string_view text);

}  // namespace firebreak::image
