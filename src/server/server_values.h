// From the texts and numbers of the server's configuration to the values that its parts take. Pure,
// but for the files that are named; any thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "control/build_env.h"
#include "control/builds.h"
#include "core/role.h"
#include "image/guest_ca.h"
#include "machine/scratch_engine.h"
#include "object/remote_objects.h"
#include "obs/log.h"
#include "server/server_config.h"

namespace firebreak::server {

control::ControlOptions options_of(const ServerConfig& config);
// The managed bases as the data directory has them: links to those of the guest directory, or
// copies with the mirrors and the certificates of the configuration.
struct BaseDisks {
  std::string directory;
  std::string debian;
  std::string python;
  std::string scratch;
  std::shared_ptr<const image::GuestCa> ca;  // in debian and python; nullptr: none

  image::CaMark ca_mark() const { return ca ? ca->mark : image::CaMark(); }
};
Result<BaseDisks> base_disks_of(const ServerConfig& config, const machine::HostPaths& paths);
Result<control::BuildsConfig> builds_of(const ServerConfig& config, const BaseDisks& disks);
// With values of the server's own environment.
Result<control::BuildEnv> build_env_of(const ServerConfig& config);
// "HOST:PORT" or "[ADDRESS]:PORT" or "HOST"; nothing for an address that stands for all.
std::string host_of(const std::string& address);
obs::Level level_of(const std::string& name);

// Files of {NAME: {...}, ...}. One entry that cannot be read keeps the server from starting: nobody
// should find out from a leak.
Result<std::map<std::string, core::EgressPolicy>> read_policies(const std::string& file);
Result<std::map<std::string, core::RolePolicy>> read_roles(const std::string& file);

// nullptr when the configuration names no S3 service elsewhere.
Result<std::unique_ptr<object::RemoteObjects>> remote_objects_of(const ServerConfig& config,
                                                                 const core::Clock& clock);

}  // namespace firebreak::server
