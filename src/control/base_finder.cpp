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

image::FoundBase managed(const std::string& disk) {
  std::error_code ec;
  // The link leads to a directory that is named by content.
  const auto real = std::filesystem::canonical(disk, ec);
  const std::string id = "base:" + (ec ? disk : real.string());
  image::ImageConfig config;
  config.env = {{"PATH", kDefaultPath}};
  return {.image = {.key = id, .config = std::move(config)},
          .disk = {.base = disk, .layers = {}, .id = id}};
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

net::Task<Result<image::FoundBase>> BaseFinder::find(core::TenantId tenant, std::string name,
                                                     std::vector<std::string>& notes) {
  FB_CO_TRY_ASSIGN(auto image, co_await find_image(tenant, name));
  if (image) co_return *std::move(image);
  const std::string asked = name;
  if (const auto alias = settings_.aliases.find(name); alias != settings_.aliases.end()) {
    name = alias->second;
    notes.push_back(asked + " is taken as " + name + ", by an alias of this server");
    FB_CO_TRY_ASSIGN(image, co_await find_image(tenant, name));
    if (image) co_return *std::move(image);
  }
  if (const auto base = settings_.managed.find(name); base != settings_.managed.end())
    co_return managed(base->second);
  co_return fail(Code::not_found,
                 "there is no base image " + asked + " here; use one of " +
                     names_of(settings_.managed) +
                     ", scratch, or an image of yours as NAME or NAME:VERSION, or let the operator "
                     "map the name with --base-aliases " +
                     asked + "=" + kDebianBase);
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
  FB_CO_TRY(co_await services_.db.run([&](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto image, store.find_image_by_name(tenant, plain));
    if (!image) return {};
    FB_TRY_ASSIGN(version, number ? store.find_version(image->id, *number)
                                  : store.latest_runnable(image->id));
    return {};
  }));
  if (!version || version->state != core::VersionState::successful) co_return std::nullopt;
  FB_CO_TRY_ASSIGN(
      std::vector<std::string> disks,
      services_.engine.snapshot_disks(services_.catalogue.directory(version->snapshot)));
  FB_CO_TRY_ASSIGN(image::ImageConfig config, config_of(*version));
  const std::string id = "snapshot:" + version->snapshot;
  co_return image::FoundBase{
      .image = {.key = id, .config = std::move(config)},
      .disk = {.base = disks.front(), .layers = {disks.begin() + 1, disks.end()}, .id = id}};
}

}  // namespace firebreak::control
