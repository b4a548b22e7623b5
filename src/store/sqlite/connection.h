// Thin ownership over SQLite's C interface: one connection, cached statements, one transaction, and
// calls that are atomic within it. Every value is bound. Owned by the store; one caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/clock.h"
#include "core/ids.h"
#include "store/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace firebreak::store {

// Bytes that are not text.
struct Blob {
  const std::string& bytes;
};

class Connection;

// One run of a cached statement: goes back to the cache when destroyed. Columns are read from left
// to right, each read moving on to the next.
class Statement {
 public:
  Statement(Connection& db, std::string_view sql, sqlite3_stmt* handle)
      : db_(&db), sql_(sql), handle_(handle) {}
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  void bind(std::nullptr_t);
  void bind(std::int64_t value);
  void bind(std::uint64_t value) { bind(static_cast<std::int64_t>(value)); }
  void bind(std::uint32_t value) { bind(static_cast<std::int64_t>(value)); }
  void bind(int value) { bind(static_cast<std::int64_t>(value)); }
  void bind(bool value) { bind(static_cast<std::int64_t>(value ? 1 : 0)); }
  void bind(std::string_view value);
  void bind(const std::string& value) { bind(std::string_view(value)); }
  // Without it a literal would become a bool.
  void bind(const char* value) { bind(std::string_view(value)); }
  void bind(const Blob& value);
  void bind(core::Time value) { bind(core::to_unix_ms(value)); }
  void bind(core::Seconds value) { bind(static_cast<std::int64_t>(value.count())); }
  template <class Tag>
  void bind(const core::Id<Tag>& value) {
    bind(std::string_view(value.str()));
  }
  template <class T>
  void bind(const std::optional<T>& value) {
    value ? bind(*value) : bind(nullptr);
  }

  Result<bool> step();  // true: there is a row to read
  Result<> finish();    // runs to the end

  std::string text();
  std::string bytes() { return text(); }
  std::int64_t i64();
  std::uint64_t u64() { return static_cast<std::uint64_t>(i64()); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(i64()); }
  bool boolean() { return i64() != 0; }
  core::Time time() { return core::from_unix_ms(i64()); }
  std::optional<std::int64_t> optional_i64();
  std::optional<core::Time> optional_time();
  template <class IdType>
  IdType id() {
    return IdType(text());
  }

 private:
  void note(int rc);

  Connection* db_;
  std::string_view sql_;
  sqlite3_stmt* handle_;
  int next_parameter_ = 1;
  int next_column_ = 0;
  int bind_error_ = 0;
};

class Connection {
 public:
  // Opens or makes the file. Code::corrupt when it is not a database.
  static Result<std::unique_ptr<Connection>> open(const std::string& path, const std::string& vfs);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // `sql` is one statement and lives as long as the database: a literal.
  template <class... Args>
  Result<Statement> query(std::string_view sql, const Args&... args) {
    FB_TRY_ASSIGN(Statement statement, prepare(sql));
    (statement.bind(args), ...);
    return statement;
  }
  // Returns how many rows it changed.
  template <class... Args>
  Result<std::uint64_t> run(std::string_view sql, const Args&... args) {
    FB_TRY_ASSIGN(Statement statement, query(sql, args...));
    FB_TRY(statement.finish());
    return changes();
  }
  // The one number a query answers with; 0 when it has no row.
  template <class... Args>
  Result<std::int64_t> number(std::string_view sql, const Args&... args) {
    FB_TRY_ASSIGN(Statement statement, query(sql, args...));
    FB_TRY_ASSIGN(bool row, statement.step());
    return row ? statement.i64() : 0;
  }
  // Several statements without values: schema and settings.
  Result<> script(const std::string& sql);
  // The transaction that Store::begin promises. Each call after a failure that made SQLite undo it
  // by itself fails: nothing is written outside of it by mistake.
  Result<> begin(Access access, Deadline deadline, Durability durability);
  Result<> commit();
  void rollback() noexcept;
  bool in_transaction() const;
  // The write-ahead log is on the disk, whoever committed to it.
  Result<> sync();

  std::int64_t last_rowid() const;
  const std::string& path() const { return path_; }
  const std::string& vfs() const { return vfs_; }

 private:
  friend class Statement;
  Connection(std::string path, std::string vfs) : path_(std::move(path)), vfs_(std::move(vfs)) {}
  Result<Statement> prepare(std::string_view sql);
  std::uint64_t changes() const;
  std::unexpected<Error> error(int rc) const;

  void end();

  std::string path_;
  std::string vfs_;
  bool begun_ = false;  // by the caller
  bool lazy_ = false;   // its commit is not to wait for the disk
  sqlite3* handle_ = nullptr;
  std::map<std::string_view, sqlite3_stmt*> idle_;  // not in use now
};

// Several statements of one call: all of them or none. Alone it is a transaction, inside of one
// that the caller began a part of it. Undone unless committed.
class Atomic {
 public:
  static Result<Atomic> begin(Connection& db, Access access = Access::write);
  Atomic(Atomic&& other) noexcept : db_(std::exchange(other.db_, nullptr)), inner_(other.inner_) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;
  Atomic& operator=(Atomic&&) = delete;
  ~Atomic();
  Result<> commit();

 private:
  Atomic(Connection& db, bool inner) : db_(&db), inner_(inner) {}
  Connection* db_;
  bool inner_;
};

}  // namespace firebreak::store
