#include "control/base_finder.h"

#include <filesystem>

#include "control/version_config.h"

namespace firebreak::control {
namespace {

std::string names_of(const std::map<std::string, std::string>& bases) {
  std::string out;
  for (const auto& [name, disk] : bases) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// The link leads to a directory that is named by content.
std::string real_path(const std::string& disk) {
  std::error_code ec;
  const auto real = std::filesystem::canonical(disk, ec);
  return ec ? disk : real.string();
}

image::FoundBase managed(const std::string& disk, const image::CaMark& ca) {
  const std::string id = "base:" + real_path(disk);
  image::ImageConfig config;
  config.env = {{"PATH", kDefaultPath}};
  return {.image = {.key = id, .config = std::move(config), .ca = ca, .layers = {}},
          .disk = {.base = disk, .layers = {}, .id = id},
          .blobs = {}};
}

}  // namespace

std::map<std::string, std::string> default_aliases() {
  std::map<std::string, std::string> aliases{{"firebreak/debian", kDebianBase},
                                             {"firebreak/python", kPythonBase}};
  for (const char* tag : {"12", "12-slim", "bookworm", "bookworm-slim", "stable", "stable-slim"})
    aliases[std::string("debian:") + tag] = kDebianBase;
  for (const char* tag : {"3.11", "3.11-slim", "3.11-bookworm", "3.11-slim-bookworm"})
    aliases[std::string("python:") + tag] = kPythonBase;
  return aliases;
}

Result<> check_alias(const std::string& value) {
  FB_TRY_ASSIGN(const auto layout, image::parse_layout_reference(value));
  if (!layout || layout->absolute()) return {};
  return fail(Code::invalid, "the path of " + value + " must be absolute");
}

net::Task<Result<image::FoundBase>> BaseFinder::find(BaseQuery query,
                                                     std::vector<std::string>& notes,
                                                     Deadline deadline) {
  const std::string asked = query.name;
  std::string name = asked;
  FB_CO_TRY_ASSIGN(auto layout, image::parse_layout_reference(name));
  if (layout) co_return co_await find_layout(*std::move(layout), false, query, notes);
  FB_CO_TRY_ASSIGN(auto image, co_await find_image(query.tenant, name));
  if (image) co_return *std::move(image);
  if (const auto alias = settings_.aliases.find(name); alias != settings_.aliases.end()) {
    name = alias->second;
    notes.push_back(asked + " is taken as " + name + ", by an alias of this server");
    FB_CO_TRY_ASSIGN(layout, image::parse_layout_reference(name));
    if (layout) co_return co_await find_layout(*std::move(layout), true, query, notes);
    FB_CO_TRY_ASSIGN(image, co_await find_image(query.tenant, name));
    if (image) co_return *std::move(image);
  }
  if (const auto base = settings_.managed.find(name); base != settings_.managed.end())
    co_return managed(base->second, settings_.ca);
  if (registries_.any()) co_return co_await find_registry(std::move(name), query, notes, deadline);
  co_return fail(
      Code::not_found, "there is no base image " + asked + " here",
      Repair{"use one of " + names_of(settings_.managed) +
             ", scratch, an image of yours as NAME or NAME:VERSION, or an OCI layout in "
             "the context as oci:PATH; or let the operator map the name with "
             "--base-aliases " +
             asked + "=" + kDebianBase + ", or allow a registry with --registries HOST"});
}

net::Task<Result<std::vector<ManagedBase>>> BaseFinder::list(Deadline deadline) {
  std::vector<ManagedBase> out;
  for (const auto& [name, disk] : settings_.managed) {
    const std::string real = real_path(disk);
    if (!inspected_.contains(real)) {
      auto work = [&] { return image::inspect_base_disk(real, deadline); };
      FB_CO_TRY_ASSIGN(image::BaseDisk inspected, co_await net::run_blocking(pool_, work));
      inspected_[real] = std::move(inspected);
    }
    ManagedBase base{.name = name, .disk = inspected_.at(real), .aliases = {}};
    for (const auto& [alias, target] : settings_.aliases)
      if (target == name) base.aliases.push_back(alias);
    out.push_back(std::move(base));
  }
  co_return out;
}

namespace {

image::FoundBase layered(const image::OciImage& image, std::shared_ptr<image::LayerBlobs> blobs) {
  return {.image = {.key = "oci:" + image.digest, .config = image.config, .layers = image.layers},
          .disk = {},
          .blobs = std::move(blobs)};
}

std::string describe(const std::string& name, const image::OciImage& image) {
  return name + " is the image " + image.digest + " with " + std::to_string(image.layers.size()) +
         (image.layers.size() == 1 ? " layer" : " layers");
}

struct OpenLayout {
  std::unique_ptr<image::FileTree> tree;
  image::OciImage image;
};

Result<OpenLayout> open_layout(const image::LayoutReference& layout,
                               const std::shared_ptr<const image::BuildContext>& context) {
  const auto tree_at = [&](const std::string& path) -> std::unique_ptr<image::FileTree> {
    if (layout.absolute()) return std::make_unique<image::DiskTree>(path);
    return std::make_unique<image::ContextTree>(context, path);
  };
  OpenLayout out;
  if (layout.archive) {
    const auto slash = layout.path.rfind('/');
    const std::string parent =
        slash == std::string::npos ? "." : layout.path.substr(0, std::max<std::size_t>(slash, 1));
    FB_TRY_ASSIGN(const image::FileSpan archive,
                  tree_at(parent)->open(layout.path.substr(slash + 1)));
    FB_TRY_ASSIGN(out.tree, image::ArchiveTree::read(archive));
  } else {
    out.tree = tree_at(layout.path);
  }
  FB_TRY_ASSIGN(out.image, image::read_oci_layout(*out.tree, layout.name));
  return out;
}

}  // namespace

net::Task<Result<image::FoundBase>> BaseFinder::find_layout(image::LayoutReference layout,
                                                            bool by_operator,
                                                            const BaseQuery& query,
                                                            std::vector<std::string>& notes) {
  if (layout.absolute() && !by_operator)
    co_return fail(Code::invalid,
                   query.name + ": an absolute path would be one of the server's host",
                   Repair{"put the "
                          "layout into the context and name it by its path there, or let "
                          "the operator map a name to it with --base-aliases NAME=" +
                          query.name});
  auto work = [&] { return open_layout(layout, query.context); };
  auto opened = co_await net::run_blocking(pool_, work);
  if (!opened) co_return fail(opened.error(), query.name);
  notes.push_back(describe(query.name, opened->image));
  co_return layered(opened->image, std::make_shared<image::LayoutBlobs>(std::move(opened->tree)));
}

net::Task<Result<image::FoundBase>> BaseFinder::find_registry(std::string name,
                                                              const BaseQuery& query,
                                                              std::vector<std::string>& notes,
                                                              Deadline deadline) {
  auto place = registries_.find(name);
  if (!place) co_return fail(place.error(), "there is no base image " + query.name + " here");
  if (!query.registry)
    co_return image::FoundBase{
        .image = {.key = std::string(kUnaskedRegistry) + name, .config = {}, .layers = {}},
        .disk = {},
        .blobs = {}};
  query.registry->log("asking " + place->registry.host + " for " + name);
  auto read = co_await registries_.read(*std::move(place), *query.registry, deadline);
  if (!read) co_return fail(read.error(), query.name);
  notes.push_back(describe(query.name, (*read)->image()));
  co_return layered((*read)->image(), *read);
}

net::Task<Result<std::optional<image::FoundBase>>> BaseFinder::find_image(core::TenantId tenant,
                                                                          std::string name) {
  const auto colon = name.rfind(':');
  const std::string plain = name.substr(0, colon);
  std::optional<std::uint32_t> number;
  if (colon != std::string::npos && name.substr(colon + 1) != "latest") {
    number = core::parse_version(name.substr(colon + 1));
    if (!number) co_return std::nullopt;
  }
  std::optional<core::ImageVersion> version;
  FB_CO_TRY(co_await services_.db.run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto image, store.find_image_by_name(tenant, plain));
    if (!image) return {};
    FB_TRY_ASSIGN(version, number ? store.find_version(image->id, *number)
                                  : store.latest_runnable(image->id));
    return {};
  }));
  if (!version || version->state != core::VersionState::successful) co_return std::nullopt;
  const std::string& builder = services_.engines.standard().name();
  if (version->engine != builder)
    co_return fail(Code::invalid,
                   "the base image " + name + " was made by the engine " + version->engine +
                       ", and builds use " + builder,
                   Repair{"build the base image again"});
  FB_CO_TRY_ASSIGN(machine::DiskContent disk,
                   services_.catalogue.disk(core::snapshot_of(*version)));
  FB_CO_TRY_ASSIGN(image::ImageConfig config, config_of(*version));
  const std::string id = "snapshot:" + version->snapshot;
  co_return image::FoundBase{
      .image = {.key = id, .config = std::move(config), .ca = guest_ca_in(*version), .layers = {}},
      .disk = {.base = std::move(disk.base), .layers = std::move(disk.layers), .id = id},
      .blobs = {},
      .snapshot = core::snapshot_of(*version)};
}

}  // namespace firebreak::control
