// A store that refuses writes when a test says so: triggers in its database, so that the server's
// own code meets the refusal where it would meet a full disk. Owned by a test; one thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace firebreak::testing_support {

class HarmedStore {
 public:
  explicit HarmedStore(const std::string& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
    sqlite3_busy_timeout(db_, 5000);
  }
  HarmedStore(const HarmedStore&) = delete;
  HarmedStore& operator=(const HarmedStore&) = delete;
  ~HarmedStore() { sqlite3_close(db_); }

  // So many more writes of microVMs work; then each fails until heal().
  void refuse_after(int writes) {
    heal();
    run("CREATE TABLE harm (writes_left INTEGER); INSERT INTO harm VALUES (" +
        std::to_string(writes) + ");");
    for (const std::string event : {"INSERT", "UPDATE"}) {
      run("CREATE TRIGGER harm_" + event + " BEFORE " + event +
          " ON microvms BEGIN SELECT RAISE(ABORT, 'harm') FROM harm WHERE writes_left <= 0;"
          " UPDATE harm SET writes_left = writes_left - 1; END;");
    }
  }
  // How many of them have been made since.
  int left() const { return std::stoi(ask("SELECT writes_left FROM harm").value_or("0")); }
  void heal() {
    run("DROP TRIGGER IF EXISTS harm_INSERT; DROP TRIGGER IF EXISTS harm_UPDATE;"
        "DROP TABLE IF EXISTS harm;");
  }

  // Every microVM is SUSPENDED.
  void put_to_sleep() { run("UPDATE microvms SET state = 'SUSPENDED', intent = 'none'"); }

  // "RUNNING/none" as it is on the disk now; nothing: there is no such microVM.
  std::optional<std::string> state_of(const std::string& id) const {
    return ask("SELECT state || '/' || intent FROM microvms WHERE id = '" + id + "'");
  }
  // Whether any microVM is in one of these.
  bool any_in(const std::set<std::string>& states) const {
    std::string list;
    for (const std::string& state : states) list += (list.empty() ? "'" : ",'") + state + "'";
    return ask("SELECT 1 FROM microvms WHERE state || '/' || intent IN (" + list + ")").has_value();
  }

 private:
  void run(const std::string& sql) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << sql << ": " << (error == nullptr ? "" : error);
    sqlite3_free(error);
  }
  std::optional<std::string> ask(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
    std::optional<std::string> answer;
    if (sqlite3_step(statement) == SQLITE_ROW)
      answer = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return answer;
  }

  sqlite3* db_ = nullptr;
};

}  // namespace firebreak::testing_support
