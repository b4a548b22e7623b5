// What a server keeps: its records, its keys, its tenants' objects. Owned by the Server; one
// executor.
#pragma once

#include <memory>

#include "control/key_ring.h"
#include "control/secret_book.h"
#include "object/object_store.h"
#include "object/remote_objects.h"
#include "server/server_config.h"
#include "server/surroundings.h"
#include "store/database.h"

namespace firebreak::server {

class Storage {
 public:
  static Result<std::unique_ptr<Storage>> open(const ServerConfig& config,
                                               const Surroundings& surroundings);

  // The keys in memory; on the first start the tenants `system` and `default` and the first key,
  // which is written to a file for the operator.
  net::Task<Result<>> load(core::Time now);

  store::Database& db() { return *db_; }
  control::KeyRing& keys() { return *keys_; }
  control::SecretBook& secrets() { return *secrets_; }
  object::ObjectStore& objects() { return *objects_; }
  object::RemoteObjects* remote_objects() { return remote_objects_.get(); }

 private:
  explicit Storage(std::string data_dir) : data_dir_(std::move(data_dir)) {}
  net::Task<Result<>> first_start(core::Time now);
  net::Task<Result<>> write_first_key(std::string file);

  std::string data_dir_;
  std::unique_ptr<store::Database> db_;
  std::unique_ptr<control::KeyRing> keys_;
  std::unique_ptr<control::SecretBook> secrets_;
  std::unique_ptr<object::ObjectStore> objects_;
  std::unique_ptr<object::RemoteObjects> remote_objects_;
};

}  // namespace firebreak::server
