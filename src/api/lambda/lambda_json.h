// What the Lambda façade keeps with versions and microVMs, and the pieces of its answers. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>

#include "api/lambda/names.h"
#include "core/model.h"

namespace firebreak::api::lambda {

// Member "lambda" of a record's config: what this façade was told and only tells again. Empty when
// the record was made elsewhere.
json::object kept(const std::string& config);

// Whether its image is the system's: kept since it was run here; nullopt for one run elsewhere.
std::optional<bool> kept_managed(const core::Microvm& microvm);

// The same text for the same request, whatever the order of its members; without clientToken.
std::string canonical_json(const json::object& input);

Result<core::Hooks> read_hooks(const json::object& hooks);
json::object hooks_json(const core::Hooks& hooks);
json::object idle_json(const core::IdlePolicy& policy);

json::object image_json(const ArnScope& place, const core::Image& image,
                        const std::vector<core::ImageVersion>& versions);
json::object version_json(const ArnScope& place, const core::Image& image,
                          const core::ImageVersion& version);
json::object build_json(const ArnScope& place, const core::Image& image, const core::Build& build);

// Of builds: there is one kind of host.
inline constexpr std::string_view kArchitecture = "X86_64";
inline constexpr std::string_view kChipset = "X86";
inline constexpr std::string_view kChipsetGeneration = "1";

}  // namespace firebreak::api::lambda
