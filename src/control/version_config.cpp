#include "control/version_config.h"

#include "base/json.h"
#include "image/image_config_json.h"
#include "store/walk.h"

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

std::optional<json::object> preload_of(const core::ImageVersion& version) {
  const auto kept = parse_json_object(version.config.empty() ? "{}" : version.config);
  if (!kept) return std::nullopt;
  const json::value* preload = kept->if_contains(kPreload);
  if (preload == nullptr || !preload->is_object()) return std::nullopt;
  return preload->get_object();
}

std::string order_key_of(const core::ImageVersion& version) {
  const auto config = parse_json_object(version.config);
  return config ? JsonReader(*config).string_or(kOrderKey, "") : std::string();
}

json::object guest_ca_json(const image::CaMark& ca, bool in_image) {
  return {{"sha256", ca.sha256}, {"certificates", ca.certificates}, {"inImage", in_image}};
}

image::CaMark guest_ca_in(const core::ImageVersion& version) {
  const auto kept = parse_json_object(version.config.empty() ? "{}" : version.config);
  if (!kept) return {};
  const json::value* ca = kept->if_contains(kGuestCa);
  if (ca == nullptr || !ca->is_object()) return {};
  JsonReader reader(ca->as_object());
  if (!reader.boolean_or("inImage", false)) return {};
  return {.sha256 = reader.string_or("sha256", ""),
          .certificates = reader.u64_or("certificates", 0)};
}

Result<std::vector<core::SnapshotRef>> snapshots_made_by(const store::Store& store,
                                                         const core::TenantId& tenant,
                                                         const std::string& key) {
  std::vector<core::SnapshotRef> made;
  FB_TRY(store::for_each_version(
      store, tenant, [&](const core::Image&, const core::ImageVersion& version) -> Result<> {
        if (version.state != core::VersionState::successful) return {};
        const auto config = parse_json_object(version.config);
        if (!config) return {};  // another's damaged record is no reason to fail this build
        const json::value* made_by = config->if_contains(kSnapshotKey);
        if (made_by != nullptr && made_by->is_string() && made_by->as_string() == key)
          made.push_back(core::snapshot_of(version));
        return {};
      }));
  return made;
}

}  // namespace firebreak::control
