// A disk for tests, as a VFS of SQLite in memory: writes reach it when their file is synced, and
// what was not is lost when the power is cut. Owned by a test; one connection at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sqlite3.h>

namespace firebreak::store {

class TestDisk {
 public:
  enum class Loss {
    all_unsynced,    // nothing that was not synced survives
    random_sectors,  // of each unsynced write any sectors survive, in any order
  };

  explicit TestDisk(std::string name);  // of the VFS; the only one of its name
  TestDisk(const TestDisk&) = delete;
  TestDisk& operator=(const TestDisk&) = delete;
  ~TestDisk();
  const std::string& name() const { return name_; }

  // So many more operations (write, truncate, sync, delete) work; the next is cut off half-way and
  // everything fails until reboot.
  void cut_after(std::uint64_t operations) { left_ = operations; }
  bool is_cut() const { return cut_; }
  void reboot(Loss loss, std::uint64_t seed);

  void set_full(bool full) { full_ = full; }
  std::uint64_t writes_to(const std::string& path) const;

 private:
  struct Write {
    std::int64_t offset;
    std::string data;
    bool truncate;  // to `offset`
  };
  struct File {
    std::string durable;
    std::string current;
    std::vector<Write> unsynced;
    std::uint64_t writes = 0;
  };
  // What the directory says, and what it would say after a cut.
  struct Name {
    std::shared_ptr<File> durable;
    std::shared_ptr<File> current;
  };
  struct Handle;
  struct Methods;

  // False: the power is gone. The operation that is cut off is `half` done.
  bool spend(const std::function<void()>& half = {});
  static void apply(std::string& content, const Write& write);

  std::string name_;
  sqlite3_vfs vfs_{};
  std::map<std::string, Name> names_;
  std::uint64_t left_ = UINT64_MAX;
  bool cut_ = false;
  bool full_ = false;
};

}  // namespace firebreak::store
