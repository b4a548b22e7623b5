#include "control/version_config.h"

#include "base/json.h"
#include "image/image_config_json.h"

namespace firebreak::control {

Result<image::ImageConfig> config_of(const core::ImageVersion& version) {
  FB_TRY_ASSIGN(const json::object kept,
                parse_json_object(version.config.empty() ? "{}" : version.config));
  const json::value* config = kept.if_contains("image");
  if (config != nullptr && config->is_object()) return image::config_from_json(config->as_object());
  image::ImageConfig plain;
  plain.env = {{"PATH", kDefaultPath}};
  return plain;
}

}  // namespace firebreak::control
