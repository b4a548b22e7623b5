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
  std::map<std::string, std::string> managed;  // "firebreak/debian:12" -> its disk
  std::string copies;  // directory of managed bases that were changed for this server
  std::string scratch_disk;
  std::map<std::string, std::string> aliases;  // "debian:bookworm" -> "firebreak/debian:12"
};

inline constexpr const char* kDebianBase = "firebreak/debian:12";
inline constexpr const char* kPythonBase = "firebreak/python:3.11";

// What the settings of an operator start from: other names of what the bases really are.
std::map<std::string, std::string> default_aliases();

class BaseFinder {
 public:
  BaseFinder(Services& services, BaseSettings settings)
      : services_(services), settings_(std::move(settings)) {}

  const std::string& scratch_disk() const { return settings_.scratch_disk; }
  // not_found says what can be had. `notes` gets what the log should say.
  net::Task<Result<image::FoundBase>> find(core::TenantId tenant, std::string name,
                                           std::vector<std::string>& notes);

 private:
  net::Task<Result<std::optional<image::FoundBase>>> find_image(core::TenantId tenant,
                                                                std::string name);

  Services& services_;
  BaseSettings settings_;
};

}  // namespace firebreak::control
