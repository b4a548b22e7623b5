// MicroVMs, images and builds of a server, with the two walls around them. Owned by the Server; one
// executor.
#pragma once

#include <memory>
#include <optional>

#include "control/builds.h"
#include "control/caps_gate.h"
#include "control/check.h"
#include "control/counting_outlet.h"
#include "control/images.h"
#include "control/limits_gate.h"
#include "control/redacting_outlet.h"
#include "control/supervisor.h"
#include "image/layer_cache.h"
#include "server/server_config.h"
#include "server/server_values.h"
#include "server/storage.h"
#include "server/surroundings.h"

namespace firebreak::server {

class ControlRoom {
 public:
  static Result<std::unique_ptr<ControlRoom>> open(const ServerConfig& config,
                                                   const Surroundings& surroundings,
                                                   Storage& storage, Hosting& hosting);
  ControlRoom(const ControlRoom&) = delete;
  ControlRoom& operator=(const ControlRoom&) = delete;
  ~ControlRoom() = default;

  // Recovers what an earlier server left, images first: microVMs stand on them.
  net::Task<Result<>> start();
  // Returns when whoever asks for the image `python` finds it, or finds it being built.
  net::Task<void> begin_python_image(net::TaskGroup& tasks);
  net::Task<void> stop(Deadline deadline);
  // Does the host hold exactly what the store says?
  net::Task<Result<control::CheckReport>> check(bool repair);

  control::Services& services() { return services_; }
  control::Supervisor& supervisor() { return *supervisor_; }
  control::Images& images() { return *images_; }
  control::Builds& builds() { return *builds_; }

 private:
  ControlRoom(const ServerConfig& config, const Surroundings& surroundings, Storage& storage,
              Hosting& hosting);
  Result<> open_images(const ServerConfig& config);
  Result<> open_builds(const ServerConfig& config, const BaseDisks& disks);
  // Names of variables only: a value may hold a password.
  Result<> say_what_builds_get(const ServerConfig& config, const BaseDisks& disks);
  net::Task<void> make_python_image();
  net::Task<bool> has_python_image();
  const core::TenantLimits* limits_of(const core::TenantId& id) const;

  Storage& storage_;
  Hosting& hosting_;
  net::asio::thread_pool& pool_;
  obs::Log& log_;
  const core::Clock& clock_;
  std::string data_dir_;
  control::LimitsGate limits_gate_;
  control::CapsGate gate_;
  control::CountingOutlet counting_outlet_;
  control::RedactingOutlet outlet_;
  image::Catalogue catalogue_;
  control::Services services_;
  std::unique_ptr<control::Supervisor> supervisor_;
  std::unique_ptr<control::Images> images_;
  std::unique_ptr<image::LayerCache> layers_;
  std::unique_ptr<image::CacheMounts> cache_mounts_;
  std::unique_ptr<control::Builds> builds_;
  net::Event python_changed_;
  bool python_begun_ = false;  // it is there, or its build is written in the store
};

}  // namespace firebreak::server
