#include "control/base_finder.h"

#include <algorithm>
#include <filesystem>

#include "control/version_config.h"

namespace firebreak::control {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

std::vector<std::string> managed_bases() {
  return {"firebreak/debian:12", "firebreak/python:3.11"};
}

std::map<std::string, std::string> default_aliases() {
  std::map<std::string, std::string> aliases{{"firebreak/debian", "firebreak/debian:12"},
                                             {"firebreak/python", "firebreak/python:3.11"}};
  for (const char* tag : {"12", "12-slim", "bookworm", "bookworm-slim", "stable", "stable-slim"})
    aliases[std::string("debian:") + tag] = "firebreak/debian:12";
  return aliases;
}

image::FoundBase BaseFinder::managed() const {
  std::error_code ec;
  // The link leads to a directory that is named by content.
  const auto real = std::filesystem::canonical(settings_.base_disk, ec);
  const std::string id = "base:" + (ec ? settings_.base_disk : real.string());
  image::ImageConfig config;
  config.env = {{"PATH", kDefaultPath}};
  return {.image = {.key = id, .config = std::move(config)},
          .disk = {.base = settings_.base_disk, .layers = {}, .id = id}};
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
  const auto bases = managed_bases();
  if (std::ranges::find(bases, name) != bases.end()) co_return managed();
  co_return fail(Code::not_found,
                 "there is no base image " + asked + " here; use one of " + joined(bases) +
                     ", scratch, or an image of yours as NAME or NAME:VERSION, or let the operator "
                     "map the name with --base-aliases " +
                     asked + "=" + bases.front());
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
