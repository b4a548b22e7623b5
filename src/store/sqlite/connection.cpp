#include "store/sqlite/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <sqlite3.h>

namespace firebreak::store {

namespace {

constexpr int kBusyTimeoutMs = 5000;

Code code_of(int rc, int system_errno) {
  if (rc == SQLITE_CONSTRAINT_FOREIGNKEY) return Code::not_found;
  if (rc == SQLITE_IOERR_NOMEM) return Code::exhausted;
  switch (rc & 0xff) {
    case SQLITE_CONSTRAINT:
      return Code::conflict;
    case SQLITE_BUSY:
      return Code::timeout;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::exhausted;
    case SQLITE_IOERR:
      return system_errno == ENOSPC || system_errno == EDQUOT ? Code::exhausted : Code::internal;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::corrupt;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Code::denied;
    case SQLITE_CANTOPEN:
      return Code::unavailable;
    case SQLITE_TOOBIG:
      return Code::invalid;
    default:
      return Code::internal;
  }
}

// What a caller is told, without the detail.
Error error_of(Code code, int rc, const std::string& path) {
  const std::string store = "the store " + path;
  const auto told = [code](std::string what, std::string repair = "") {
    return fail(code, std::move(what), Repair{std::move(repair)}).error();
  };
  if (rc == SQLITE_CONSTRAINT_FOREIGNKEY) return told("what it belongs to does not exist");
  if ((rc & 0xff) == SQLITE_CONSTRAINT) return told("it exists already");
  if ((rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM)
    return told(store + ": no memory left");
  switch (code) {
    case Code::timeout:
      return told(store + " is busy: another transaction on it has not ended", "try again");
    case Code::exhausted:
      return fail(code, Reason{"disk_full"}, store + " cannot grow: its disk is full",
                  Repair{"free some space and try again"})
          .error();
    case Code::corrupt:
      return told(store + " is damaged or not a database",
                  "restore it from a backup, or move it away to begin with an empty one");
    case Code::denied:
      return told(store + " cannot be written", "give its file and directory to the server's user");
    case Code::unavailable:
      return told(store + " cannot be opened",
                  "check that its directory exists and can be written");
    case Code::invalid:
      return told("the value is too big to be stored");
    default:
      break;
  }
  return (rc & 0xff) == SQLITE_IOERR
             ? told(store + ": its disk failed", "look at the host's kernel log")
             : told(store + " failed");
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_),
      sql_(other.sql_),
      handle_(std::exchange(other.handle_, nullptr)),
      next_parameter_(other.next_parameter_),
      next_column_(other.next_column_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (handle_ == nullptr) return;
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  if (!db_->idle_.try_emplace(sql_, handle_).second) sqlite3_finalize(handle_);
}

void Statement::note(int rc) {
  ++next_parameter_;
  if (rc != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = rc;
}

void Statement::bind(std::nullptr_t) {
  note(sqlite3_bind_null(handle_, next_parameter_));
}

void Statement::bind(std::int64_t value) {
  note(sqlite3_bind_int64(handle_, next_parameter_, value));
}

void Statement::bind(std::string_view value) {
  // A null pointer would bind NULL, not the empty text.
  const char* data = value.data() == nullptr ? "" : value.data();
  note(sqlite3_bind_text64(handle_, next_parameter_, data, value.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
}

void Statement::bind(const Blob& value) {
  note(sqlite3_bind_blob64(handle_, next_parameter_, value.bytes.c_str(), value.bytes.size(),
                           SQLITE_TRANSIENT));
}

Result<bool> Statement::step() {
  if (bind_error_ != SQLITE_OK) return db_->error(bind_error_);
  next_column_ = 0;
  const int rc = sqlite3_step(handle_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return db_->error(rc);
}

Result<> Statement::finish() {
  while (true) {
    FB_TRY_ASSIGN(bool row, step());
    if (!row) return {};
  }
}

std::string Statement::text() {
  const int column = next_column_++;
  const void* data = sqlite3_column_blob(handle_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column));
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

std::int64_t Statement::i64() {
  return sqlite3_column_int64(handle_, next_column_++);
}

std::optional<std::int64_t> Statement::optional_i64() {
  if (sqlite3_column_type(handle_, next_column_) == SQLITE_NULL) {
    ++next_column_;
    return std::nullopt;
  }
  return i64();
}

std::optional<core::Time> Statement::optional_time() {
  auto value = optional_i64();
  if (!value) return std::nullopt;
  return core::from_unix_ms(*value);
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path,
                                                     const std::string& vfs) {
  std::unique_ptr<Connection> db(new Connection(path, vfs));
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX |
                    SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  const int rc =
      sqlite3_open_v2(path.c_str(), &db->handle_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (rc != SQLITE_OK) return db->error(rc);
  sqlite3_busy_timeout(db->handle_, kBusyTimeoutMs);
  // A damaged or foreign file must not make the schema's own functions run.
  sqlite3_db_config(db->handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db->handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  return db;
}

Connection::~Connection() {
  for (const auto& [sql, handle] : idle_) sqlite3_finalize(handle);
  sqlite3_close_v2(handle_);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  if (begun_ && !in_transaction()) {
    return fail(Code::unavailable, "the store undid the transaction after a failure",
                Repair{"begin it again"});
  }
  if (auto node = idle_.extract(sql)) return Statement(*this, sql, node.mapped());
  sqlite3_stmt* handle = nullptr;
  const int rc = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (rc != SQLITE_OK) return error(rc);
  return Statement(*this, sql, handle);
}

Result<> Connection::script(const std::string& sql) {
  const int rc = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) return error(rc);
  return {};
}

std::int64_t Connection::last_rowid() const {
  return sqlite3_last_insert_rowid(handle_);
}

std::uint64_t Connection::changes() const {
  return static_cast<std::uint64_t>(sqlite3_changes64(handle_));
}

std::unexpected<Error> Connection::error(int rc) const {
  const Code code = code_of(rc, handle_ == nullptr ? 0 : sqlite3_system_errno(handle_));
  std::string detail = "SQLite " + std::to_string(rc) + ": ";
  detail += handle_ == nullptr ? sqlite3_errstr(rc) : sqlite3_errmsg(handle_);
  Error error = error_of(code, rc, path_);
  error.detail = std::move(detail);
  return std::unexpected(std::move(error));
}

// SQLite would do this with the next commit that is to last.
Result<> Connection::sync() {
  // A connection that has read nothing yet has not opened the log.
  FB_TRY(script("PRAGMA user_version"));
  sqlite3_file* log = nullptr;
  const int found =
      sqlite3_file_control(handle_, "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
  if (found != SQLITE_OK) return error(found);
  if (log == nullptr || log->pMethods == nullptr) return {};  // nothing was written yet
  const int synced = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (synced != SQLITE_OK) return error(synced);
  return {};
}

bool Connection::in_transaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

Result<> Connection::begin(Access access, Deadline deadline, Durability durability) {
  if (begun_) return fail(Code::internal, "the store's connection has a transaction already");
  if (deadline.passed()) return std::unexpected(error_of(Code::timeout, 0, path_));
  // A write-ahead log is not flushed at each commit then; it is no less consistent.
  if (durability == Durability::later) {
    FB_TRY(script("PRAGMA synchronous = NORMAL"));
    lazy_ = true;
  }
  const auto left = std::min<std::int64_t>(deadline.left().count(), INT32_MAX);
  sqlite3_busy_timeout(handle_, static_cast<int>(left));
  const auto begun = run(access == Access::read ? "BEGIN" : "BEGIN IMMEDIATE");
  sqlite3_busy_timeout(handle_, kBusyTimeoutMs);
  if (!begun) {
    end();
    return std::unexpected(begun.error());
  }
  begun_ = true;
  return {};
}

Result<> Connection::commit() {
  FB_TRY(run("COMMIT"));
  end();
  return {};
}

void Connection::rollback() noexcept {
  begun_ = false;
  // After some failures (disk full) SQLite has rolled back by itself.
  if (in_transaction()) (void)run("ROLLBACK");
  end();
}

void Connection::end() {
  begun_ = false;
  if (std::exchange(lazy_, false)) (void)script("PRAGMA synchronous = FULL");
}

Result<Atomic> Atomic::begin(Connection& db, Access access) {
  const bool inner = db.in_transaction();
  FB_TRY(db.run(inner ? "SAVEPOINT call" : access == Access::read ? "BEGIN" : "BEGIN IMMEDIATE"));
  return Atomic(db, inner);
}

Atomic::~Atomic() {
  if (db_ == nullptr || !db_->in_transaction()) return;
  if (!inner_) {
    (void)db_->run("ROLLBACK");
    return;
  }
  (void)db_->run("ROLLBACK TO call");
  (void)db_->run("RELEASE call");
}

Result<> Atomic::commit() {
  FB_TRY(db_->run(inner_ ? "RELEASE call" : "COMMIT"));
  db_ = nullptr;
  return {};
}

}  // namespace firebreak::store
