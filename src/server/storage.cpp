#include "server/storage.h"

#include "base/sys.h"
#include "server/server_values.h"

namespace firebreak::server {
namespace {

constexpr const char* kFirstTenant = "default";

}  // namespace

Result<std::unique_ptr<Storage>> Storage::open(const ServerConfig& config,
                                               const Surroundings& surroundings) {
  FB_TRY(sys::mkdirs(config.data_dir, 0700));
  std::unique_ptr<Storage> storage(new Storage(config.data_dir));
  FB_TRY_ASSIGN(auto store, surroundings.open_store());
  storage->db_ =
      std::make_unique<store::Database>(surroundings.io.get_executor(), std::move(store));
  FB_TRY_ASSIGN(const wire::SealingKey master,
                control::load_master_key(config.data_dir + "/master.key"));
  storage->keys_ = std::make_unique<control::KeyRing>(*storage->db_, surroundings.clock, master);
  storage->secrets_ =
      std::make_unique<control::SecretBook>(*storage->db_, surroundings.clock, master);
  storage->objects_ = std::make_unique<object::ObjectStore>(
      config.data_dir + "/objects",
      object::ObjectLimits{.tenant_bytes = config.object_quota_mib << 20,
                           .object_bytes = config.object_max_mib << 20},
      surroundings.clock);
  FB_TRY(storage->objects_->load());
  FB_TRY_ASSIGN(storage->remote_objects_, remote_objects_of(config, surroundings.clock));
  return storage;
}

net::Task<Result<>> Storage::load(core::Time now) {
  FB_CO_TRY(co_await first_start(now));
  FB_CO_TRY(co_await keys_->load());
  co_return co_await secrets_->load();
}

net::Task<Result<>> Storage::first_start(core::Time now) {
  FB_CO_TRY_ASSIGN(const auto tenants, co_await db_->run([](const store::Store& store) {
    return store.list_tenants();
  }));
  const std::string file = data_dir_ + "/credentials.json";
  if (!tenants.empty() && sys::exists(file)) co_return Result<>();
  if (tenants.empty()) {
    const core::Tenant system{core::kSystemTenant, "system", {}, now};
    const core::Tenant first{core::new_tenant_id(), kFirstTenant, {}, now};
    FB_CO_TRY(co_await db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(system));
      return store.create_tenant(first);
    }));
  }
  FB_CO_TRY(co_await keys_->load());
  co_return co_await write_first_key(file);
}

net::Task<Result<>> Storage::write_first_key(std::string file) {
  for (const core::Tenant& tenant : keys_->tenants()) {
    if (tenant.name != kFirstTenant) continue;
    FB_CO_TRY_ASSIGN(const control::IssuedKey key,
                     co_await keys_->issue(tenant.id, "first", core::KeyKind::administrator));
    const json::object text{{"accountId", tenant.id.str()},
                            {"accessKeyId", key.key.id.str()},
                            {"secretAccessKey", key.secret_access_key},
                            {"apiKey", key.api_key}};
    FB_CO_TRY(sys::replace_file(file, json::serialize(text) + "\n", 0600));
  }
  co_return Result<>();
}

}  // namespace firebreak::server
