// The Store on SQLite: one file of one server, write-ahead log, synced at every commit. One caller
// at a time per connection.
#pragma once

#include <memory>
#include <string>

#include "store/store.h"

namespace firebreak::store {

struct SqliteOptions {
  std::string path;
  std::string vfs;  // another VFS of SQLite's registry; empty: the default
};

// Makes the file (0600) when absent, brings an older schema up to date, refuses a newer one and one
// whose migrations were changed (Code::corrupt, with what to do).
Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options);

}  // namespace firebreak::store
