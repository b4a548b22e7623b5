// How records of images and versions go, each in one turn of the store; their files follow. For
// Images only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model.h"
#include "store/store.h"

namespace firebreak::control {

// What goes with records that are removed.
struct Removed {
  std::vector<core::ImageVersion> versions;
  std::vector<core::BuildId> builds;
};

// "image web cannot be removed while it is being built"
std::string image_cannot(std::string_view what, const core::Image& image);

}  // namespace firebreak::control
