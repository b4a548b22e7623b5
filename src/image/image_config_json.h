// An image's configuration as JSON, in the words of the OCI image specification: how it is kept,
// and what images from elsewhere carry. Pure; any thread.
#pragma once

#include "base/json.h"
#include "image/image_config.h"

namespace firebreak::image {

json::object to_json(const ImageConfig& config);
// Code::invalid; members that are not known here are left out.
Result<ImageConfig> config_from_json(const json::object& object);

// What the image starts: entrypoint and command together.
std::vector<std::string> command_of(const ImageConfig& config);
// The first TCP port that EXPOSE names; 0: none.
std::uint16_t first_port(const ImageConfig& config);

}  // namespace firebreak::image
