// What FROM and --from may name: the bases that Firebreak comes with, aliases, images of the tenant
// and of the system, OCI layouts, images of registries. Owned by Builds; one executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/oci_registries.h"
#include "control/services.h"
#include "image/base_disk.h"
#include "image/builder.h"

namespace firebreak::control {

struct BaseSettings {
  std::map<std::string, std::string> managed;  // "firebreak/debian:12" -> its disk
  std::string copies;  // directory of managed bases that were changed for this server
  std::string scratch_disk;
  std::map<std::string, std::string> aliases;  // "debian:bookworm" -> "firebreak/debian:12"
  RegistrySettings registries;
  image::CaMark ca = {};  // in the managed ones
};

// A base that Firebreak comes with, as lists show it.
struct ManagedBase {
  std::string name;
  image::BaseDisk disk;
  std::vector<std::string> aliases;  // names that stand for it
};

struct BaseQuery {
  core::TenantId tenant;
  std::string name;
  std::shared_ptr<const image::BuildContext> context;
  // Empty: nobody outside is asked. What comes back for an image of a registry then only says that
  // it may be asked for.
  std::optional<RegistryAccess> registry;
};

// How the key of an image begins that a registry was not asked for.
inline constexpr std::string_view kUnaskedRegistry = "registry:";

inline constexpr const char* kDebianBase = "firebreak/debian:12";
inline constexpr const char* kPythonBase = "firebreak/python:3.11";

// What the settings of an operator start from: other names of what the bases really are.
std::map<std::string, std::string> default_aliases();
// Code::invalid for a value that no FROM could use.
Result<> check_alias(const std::string& value);

class BaseFinder {
 public:
  BaseFinder(Services& services, net::asio::thread_pool& pool, BaseSettings settings)
      : services_(services),
        pool_(pool),
        settings_(std::move(settings)),
        registries_(services.executor, pool, settings_.registries) {}

  const std::string& scratch_disk() const { return settings_.scratch_disk; }
  // not_found says what can be had. `notes` gets what the log should say.
  net::Task<Result<image::FoundBase>> find(BaseQuery query, std::vector<std::string>& notes,
                                           Deadline deadline);
  // Reads each disk once, which takes a second or so.
  net::Task<Result<std::vector<ManagedBase>>> list(Deadline deadline);

 private:
  net::Task<Result<std::optional<image::FoundBase>>> find_image(core::TenantId tenant,
                                                                std::string name);
  // `by_operator`: an alias says so, and only then a path of the host may.
  net::Task<Result<image::FoundBase>> find_layout(image::LayoutReference layout, bool by_operator,
                                                  const BaseQuery& query,
                                                  std::vector<std::string>& notes);
  net::Task<Result<image::FoundBase>> find_registry(std::string name, const BaseQuery& query,
                                                    std::vector<std::string>& notes,
                                                    Deadline deadline);

  Services& services_;
  net::asio::thread_pool& pool_;
  BaseSettings settings_;
  Registries registries_;
  std::map<std::string, image::BaseDisk> inspected_;  // by where the disk really is
};

}  // namespace firebreak::control
