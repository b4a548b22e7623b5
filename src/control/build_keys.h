// What makes two builds the same: what was asked for, and what the snapshot is made of. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "control/builds.h"
#include "core/model.h"

namespace firebreak::control {

// Of the application: what the platform sets, then what the image sets, then what the request sets;
// what is named later wins.
core::Environment environment(const BuildRequest& request, std::uint64_t version,
                              const image::BuiltDisk& built);

// What was asked for, beside the context, the Dockerfile and the bases, which `digest` stands for.
// Secrets do not count, as for layers; nor does what only concerns the build.
std::string order_key(const BuildRequest& request, const std::string& digest);

// Two builds with the same key make the same snapshot.
std::string snapshot_key(const core::TenantId& tenant, const BuildRequest& request,
                         const image::BuiltDisk& built, const core::Environment& environment);

}  // namespace firebreak::control
