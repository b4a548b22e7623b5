#include "store/sqlite/sqlite_store.h"

#include <cerrno>
#include <filesystem>

#include <sys/file.h>

#include "base/sys.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

// A lock beside the file and not on it: SQLite's own locks belong to the process, and closing any
// descriptor of the database would drop them.
Result<UniqueFd> lock_store(const std::string& path) {
  const std::string lock_path = path + ".lock";
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return fail_errno("locking " + lock_path);
  return fail(Code::conflict, "the store " + path + " is in use by another server",
              Repair{"stop that one, or give this one a "
                     "data directory of its own"});
}

// Made here and not by SQLite: nobody else may read it for any moment, and its name must survive
// a power cut.
Result<> make_file(const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::fchmod(fd.get(), 0600) != 0) return fail_errno("protecting " + path);
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return sys::fsync_dir(parent.empty() ? "." : parent);
}

// What each connection is told anew.
Result<> prepare(Connection& db) {
  return db.script(
      "PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA synchronous = FULL;");
}

Result<> configure(Connection& db) {
  FB_TRY(prepare(db));
  FB_TRY_ASSIGN(Statement mode, db.query("PRAGMA journal_mode = WAL"));
  FB_TRY_ASSIGN(bool row, mode.step());
  const std::string answer = row ? mode.text() : "";
  if (answer != "wal") {
    return fail(Code::unavailable,
                "the store " + db.path() + " cannot have a write-ahead log here (journal mode " +
                    answer + ")",
                Repair{"put it on a local file system"});
  }
  return {};
}

Result<> check_integrity(Connection& db) {
  FB_TRY_ASSIGN(Statement check, db.query("PRAGMA quick_check(1)"));
  FB_TRY_ASSIGN(bool row, check.step());
  const std::string answer = row ? check.text() : "no answer";
  if (answer == "ok") return {};
  Error error = fail(Code::corrupt, "the store " + db.path() + " is damaged",
                     Repair{"restore it from a backup, or move it away to begin with an empty one"})
                    .error();
  error.detail = answer;
  return std::unexpected(std::move(error));
}

}  // namespace

Result<std::unique_ptr<Store>> SqliteStore::connect() const {
  FB_TRY_ASSIGN(auto db, Connection::open(db_->path(), db_->vfs()));
  FB_TRY(prepare(*db));
  return std::make_unique<SqliteStore>(lock_, std::move(db));
}

Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options) {
  auto lock = std::make_shared<UniqueFd>();
  if (options.vfs.empty()) {
    FB_TRY_ASSIGN(*lock, lock_store(options.path));
    FB_TRY(make_file(options.path));
  }
  FB_TRY_ASSIGN(auto db, Connection::open(options.path, options.vfs));
  // Before anything is written: it may be another program's.
  FB_TRY(check_version(*db, migrations()));
  FB_TRY(configure(*db));
  FB_TRY(check_integrity(*db));
  FB_TRY(migrate(*db, migrations()));
  return std::make_unique<SqliteStore>(std::move(lock), std::move(db));
}

}  // namespace firebreak::store
