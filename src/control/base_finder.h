// What FROM and --from may name: the bases that Firebreak comes with, aliases of them, images of
// the tenant and of the system. Owned by Builds; one executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/services.h"
#include "image/builder.h"

namespace firebreak::control {

struct BaseSettings {
  std::string base_disk;
  std::string scratch_disk;
  std::map<std::string, std::string> aliases;  // "debian:bookworm" -> "firebreak/debian:12"
};

// What the settings of an operator start from: other names of what the base really is. Not
// python:3.11, whose users expect pip.
std::map<std::string, std::string> default_aliases();
// Names of the bases that Firebreak comes with.
std::vector<std::string> managed_bases();

class BaseFinder {
 public:
  BaseFinder(Services& services, BaseSettings settings)
      : services_(services), settings_(std::move(settings)) {}

  const std::string& scratch_disk() const { return settings_.scratch_disk; }
  // not_found says what can be had. `notes` gets what the log should say.
  net::Task<Result<image::FoundBase>> find(core::TenantId tenant, std::string name,
                                           std::vector<std::string>& notes);

 private:
  image::FoundBase managed() const;
  net::Task<Result<std::optional<image::FoundBase>>> find_image(core::TenantId tenant,
                                                                std::string name);

  Services& services_;
  BaseSettings settings_;
};

}  // namespace firebreak::control
