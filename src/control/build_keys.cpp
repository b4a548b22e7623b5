#include "control/build_keys.h"

#include "base/json.h"
#include "image/image_config_json.h"
#include "wire/crypto.h"

namespace firebreak::control {
namespace {

json::object to_json(const core::Environment& variables) {
  json::object object;
  for (const auto& [name, value] : variables) object[name] = value;
  return object;
}

// Without it the key is what it was before there was such an option.
void add_preload(const BuildRequest& request, json::object& parts) {
  if (!request.preload.empty()) parts["preload"] = core::to_json(request.preload);
}

}  // namespace

core::Environment environment(const BuildRequest& request, std::uint64_t version,
                              const image::BuiltDisk& built) {
  core::Environment env = built.ca.sha256.empty() ? core::Environment() : image::ca_environment();
  if (request.platform_env)
    for (const auto& [name, value] : request.platform_env(version)) env[name] = value;
  for (const auto& [name, value] : built.config.env) env[name] = value;
  for (const auto& [name, value] : request.env) env[name] = value;
  return env;
}

std::string order_key(const BuildRequest& request, const std::string& digest) {
  json::object parts{{"digest", digest},
                     {"file", request.file},
                     {"target", request.target},
                     {"args", to_json(request.args)},
                     {"hooks", core::to_json(request.hooks)},
                     {"ready", std::to_string(request.ready_port) + request.ready_path},
                     {"env", to_json(request.env)},
                     {"memory", request.memory_mib},
                     {"capabilities", request.all_capabilities},
                     {"egress", request.egress},
                     {"python", request.python_context}};
  add_preload(request, parts);
  return wire::sha256_hex(json::serialize(parts));
}

std::string snapshot_key(const core::TenantId& tenant, const BuildRequest& request,
                         const image::BuiltDisk& built, const core::Environment& environment) {
  json::object parts{{"tenant", tenant.str()},
                     {"disk", built.disk.id},
                     {"config", image::to_json(built.config)},
                     {"hooks", core::to_json(request.hooks)},
                     {"ready", std::to_string(request.ready_port) + request.ready_path},
                     {"env", to_json(environment)},
                     {"memory", request.memory_mib},
                     {"capabilities", request.all_capabilities},
                     {"python", request.python_context}};
  add_preload(request, parts);
  return wire::sha256_hex(json::serialize(parts));
}

}  // namespace firebreak::control
