// How records of images and versions go, each in one transaction; their files follow. For Images
// only; any thread that may use the store.
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

// Versions that nobody uses, oldest first: not the newest that can run, none that is being built,
// none whose microVMs live, and not the last of all.
Result<std::vector<core::ImageVersion>> unused_versions(const store::Store& store,
                                                        const core::Image& image);
Result<Removed> remove_versions(store::Store& store,
                                const std::vector<core::ImageVersion>& versions);

}  // namespace firebreak::control
