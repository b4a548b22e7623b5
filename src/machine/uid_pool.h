// Leases of user ids, one per machine, kept as files so that they survive the daemon. Owned by the
// engine of a data directory. A lease is a file <data>/uids/<uid> that holds the owner's id. Blocks
// on fsync; any thread.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace firebreak::machine {

struct UidRange {
  uid_t first = 700000;
  uid_t count = 4096;
};

struct UidLease {
  uid_t uid = 0;
  std::string owner;  // empty when the host lost power while the lease was taken
};

// True while any process of this pid namespace, zombies included, runs under the uid.
bool uid_has_process(uid_t uid);

class UidPool {
 public:
  static Result<UidPool> open(const std::string& data_dir, UidRange range = {});

  // Never a uid under which a process still runs. Code::exhausted when all are leased.
  Result<uid_t> lease(const std::string& owner) const;
  // The caller has removed every file the uid owned. Code::conflict while a process runs under it;
  // a uid that is not leased is Code::not_found.
  Result<> release(uid_t uid) const;
  Result<std::vector<UidLease>> list() const;

 private:
  UidPool(std::string dir, UidRange range) : dir_(std::move(dir)), range_(range) {}
  std::string path_of(uid_t uid) const;
  bool contains(uid_t uid) const {
    return uid >= range_.first && uid - range_.first < range_.count;
  }

  std::string dir_;
  UidRange range_;
};

}  // namespace firebreak::machine
