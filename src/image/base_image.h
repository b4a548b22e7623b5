// Images made straight from the base root filesystem: boot, start the application (if any) and a
// warm interpreter, snapshot. One executor.
#pragma once

#include <functional>
#include <string>

#include "core/model.h"
#include "image/catalogue.h"
#include "machine/engine.h"

namespace firebreak::image {

struct BaseImageSpec {
  std::string base_disk;  // raw ext4
  std::string directory;  // of the snapshot to make
  std::string machine_id;
  core::SizeClass size;
  machine::TenantSpec tenant;
  core::Hooks hooks;
  bool python_context = false;  // a warm interpreter, frozen with the snapshot
  std::function<void(std::string_view step)> progress;
};

inline constexpr const char* kWarmContext = "default";

// Code::guest when the application does not become ready. Nothing is left of a build that failed.
net::Task<Result<>> build_base_image(machine::Engine& engine, BaseImageSpec spec,
                                     Deadline deadline);

}  // namespace firebreak::image
