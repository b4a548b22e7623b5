// What a version's record keeps of the image's own configuration, and of what made its snapshot.
// Any thread that may use the store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/model.h"
#include "image/guest_ca.h"
#include "image/image_config.h"
#include "store/store.h"

namespace firebreak::control {

inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Of a version that no Dockerfile made: a search path and nothing else.
Result<image::ImageConfig> config_of(const core::ImageVersion& version);

// The member of a version's config with the modules that its interpreters have loaded.
inline constexpr const char* kPreload = "preload";
// Of a version that has such modules.
std::optional<json::object> preload_of(const core::ImageVersion& version);

// The member of a version's config that says which certificates of --guest-ca its build trusted,
// and whether they are in the image.
inline constexpr const char* kGuestCa = "guestCa";
json::object guest_ca_json(const image::CaMark& ca, bool in_image);
// Those that are in the image; empty: none.
image::CaMark guest_ca_in(const core::ImageVersion& version);

// The member of a version's config that says what made its snapshot.
inline constexpr const char* kSnapshotKey = "snapshotKey";
// The member that says what a build from a Dockerfile was asked for: BuildRequest and context.
inline constexpr const char* kOrderKey = "orderKey";
// Empty: it does not say.
std::string order_key_of(const core::ImageVersion& version);
// The tenant's snapshots that were made by exactly this. The rest of a config is the tenant's text,
// such as labels, and never counts.
Result<std::vector<core::SnapshotRef>> snapshots_made_by(const store::Store& store,
                                                         const core::TenantId& tenant,
                                                         const std::string& key);

}  // namespace firebreak::control
