// What a version's record keeps of the image's own configuration. Pure; any thread.
#pragma once

#include "core/model.h"
#include "image/image_config.h"

namespace firebreak::control {

inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Of a version that no Dockerfile made: a search path and nothing else.
Result<image::ImageConfig> config_of(const core::ImageVersion& version);

}  // namespace firebreak::control
