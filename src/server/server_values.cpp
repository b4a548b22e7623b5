#include "server/server_values.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include <unistd.h>

#include "base/json.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/words.h"
#include "control/registry_auth.h"
#include "image/base_copy.h"
#include "machine/kept_base.h"

namespace firebreak::server {
namespace {

std::uint64_t host_memory_mib() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) >> 20;
}

// {NAME: {...}, ...}, each read by `parse`; one that cannot be read keeps the server from starting:
// nobody should find out from a leak.
template <class T>
Result<std::map<std::string, T>> read_named(
    const std::string& file,
    const std::function<Result<T>(const std::string&, json::object&)>& parse) {
  std::map<std::string, T> all;
  if (file.empty()) return all;
  FB_TRY_ASSIGN(const std::string text, sys::read_file(file));
  auto object = parse_json_object(text);
  if (!object) return fail(object.error(), file);
  for (auto& [key, value] : *object) {
    const std::string name(key);
    if (!value.is_object()) return fail(Code::invalid, file + ": " + name + " must be a policy");
    auto parsed = parse(name, value.as_object());
    if (!parsed) return fail(parsed.error(), file + ": " + name);
    all[name] = *std::move(parsed);
  }
  return all;
}

}  // namespace

control::ControlOptions options_of(const ServerConfig& config) {
  const unsigned cpus = std::max(1U, std::thread::hardware_concurrency());
  control::ControlOptions options;
  const std::uint64_t host = host_memory_mib();
  options.budget.memory_mib = config.memory_mib != 0      ? config.memory_mib
                              : host > config.reserve_mib ? host - config.reserve_mib
                                                          : host / 2;
  options.budget.millicpu = cpus * 1000;
  options.budget.overcommit = config.overcommit;
  options.pool = {config.pool_least, config.pool_most};
  options.suspend_under_pressure = config.suspend_under_pressure;
  options.parallel_restores = std::max(2U, cpus);
  options.tick = std::chrono::milliseconds(config.tick_ms);
  options.keep_history = std::chrono::days(config.keep_history_days);
  options.credential_life = core::Seconds(config.credential_seconds);
  return options;
}

std::string host_of(const std::string& address) {
  std::string host = address;
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else if (const auto colon = host.rfind(':'); colon != std::string::npos) {
    host.resize(colon);
  }
  return host == "0.0.0.0" || host == "::" ? "" : host;
}

obs::Level level_of(const std::string& name) {
  if (name == "debug") return obs::Level::debug;
  if (name == "warn") return obs::Level::warn;
  return name == "error" ? obs::Level::error : obs::Level::info;
}

Result<std::map<std::string, core::EgressPolicy>> read_policies(const std::string& file) {
  return read_named<core::EgressPolicy>(file, [](const std::string& name, json::object& policy) {
    policy["name"] = name;
    return core::egress_policy_from_json(json::serialize(policy));
  });
}

Result<std::map<std::string, core::RolePolicy>> read_roles(const std::string& file) {
  return read_named<core::RolePolicy>(
      file, [](const std::string& name, json::object& policy) -> Result<core::RolePolicy> {
        FB_TRY(core::check_role_name(name));
        return core::parse_role_policy(policy);
      });
}

Result<BaseDisks> base_disks_of(const ServerConfig& config, const machine::HostPaths& paths) {
  image::BaseChanges changes{.mirrors = {.apt = config.apt_mirror,
                                         .apt_security = config.apt_security_mirror,
                                         .pip = config.pip_index},
                             .ca = {}};
  FB_TRY(image::check_mirrors(changes.mirrors));
  FB_TRY_ASSIGN(changes.ca, image::read_guest_ca(config.guest_ca));
  const std::string directory = config.data_dir + "/bases";
  const auto keep = [&](const std::string& disk) -> Result<std::string> {
    FB_TRY_ASSIGN(const std::string own, image::changed_disk(disk, changes, directory));
    return machine::keep_base(own, directory);
  };
  BaseDisks disks{.directory = directory, .debian = {}, .python = {}, .scratch = {}, .ca = {}};
  FB_TRY_ASSIGN(disks.debian, keep(paths.debian_disk()));
  FB_TRY_ASSIGN(disks.python, keep(paths.base_disk()));
  FB_TRY_ASSIGN(disks.scratch, machine::keep_base(paths.scratch_disk(), directory));
  if (!changes.ca) return disks;
  FB_TRY_ASSIGN(changes.ca->bundle, image::bundle_in(disks.debian));
  disks.ca = std::make_shared<const image::GuestCa>(*std::move(changes.ca));
  return disks;
}

Result<control::BuildEnv> build_env_of(const ServerConfig& config) {
  return control::parse_build_env(
      config.build_env, [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      });
}

Result<control::BuildsConfig> builds_of(const ServerConfig& config, const BaseDisks& disks) {
  auto aliases = control::default_aliases();
  for (const std::string_view part : split(config.base_aliases, ',')) {
    if (part.empty()) continue;
    const auto alias = split_pair(part);
    if (!alias || alias->value.empty())
      return fail(Code::invalid, "--base-aliases: '" + std::string(part) + "' must be NAME=BASE");
    if (auto good = control::check_alias(alias->value); !good)
      return fail(good.error(), "--base-aliases");
    aliases[alias->name] = alias->value;
  }
  auto registries = image::parse_registries(config.registries);
  if (!registries) return fail(registries.error(), "--registries");
  if (!config.registry_auth.empty()) {
    // Looked at now, so that nobody finds out from a build.
    auto keys = control::read_registry_auth(config.registry_auth);
    if (!keys) return fail(keys.error(), "--registry-auth");
    if (auto good = control::registry_auth_for(*keys, ""); !good)
      return fail(good.error(), "--registry-auth " + config.registry_auth);
  }
  FB_TRY_ASSIGN(control::BuildEnv run_env, build_env_of(config));
  return control::BuildsConfig{.bases = {.managed = {{control::kDebianBase, disks.debian},
                                                     {control::kPythonBase, disks.python}},
                                         .copies = disks.directory,
                                         .scratch_disk = disks.scratch,
                                         .aliases = std::move(aliases),
                                         .registries = {.allowed = *std::move(registries),
                                                        .directory = config.data_dir + "/registry",
                                                        .uid = config.uid_first + config.uid_count,
                                                        .auth_file = config.registry_auth},
                                         .ca = disks.ca_mark()},
                               .directory = config.data_dir + "/builds",
                               .egress = config.build_egress,
                               .time = std::chrono::seconds(config.build_seconds),
                               .cache_bytes = config.build_cache_mib << 20,
                               .cache_mount_bytes = config.build_cache_mounts_mib << 20,
                               .run_env = std::move(run_env.variables),
                               .ca = disks.ca,
                               .parallel = config.parallel_builds};
}

Result<std::unique_ptr<object::RemoteObjects>> remote_objects_of(const ServerConfig& config,
                                                                 const core::Clock& clock) {
  if (config.s3_endpoint.empty() && config.s3_credentials.empty() && config.s3_buckets.empty())
    return nullptr;
  if (config.s3_endpoint.empty() || config.s3_credentials.empty() || config.s3_buckets.empty())
    return fail(Code::invalid, "--s3-endpoint, --s3-credentials and --s3-buckets belong together",
                Repair{"give all three"});
  auto grants = object::parse_remote_grants(config.s3_buckets);
  if (!grants) return fail(grants.error(), "--s3-buckets");
  auto opened = object::RemoteObjects::open({.endpoint = config.s3_endpoint,
                                             .region = config.s3_region,
                                             .credentials_file = config.s3_credentials,
                                             .grants = *std::move(grants)},
                                            clock);
  if (!opened) return fail(opened.error(), "--s3-endpoint");
  return opened;
}

}  // namespace firebreak::server
