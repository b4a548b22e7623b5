// The kernels that must seed their random number generators anew when this guest wakes up as
// somebody else. Filled by the data thread, used by the ctl thread while the tenant is frozen.
#pragma once

#include <map>
#include <mutex>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

class ReseedList {
 public:
  // `key` is anything unique; a second add() replaces. Until it is used the signal waits: the
  // process may have no handler yet, and most guests wake for something else than a context that
  // has run nothing.
  Result<> add(const void* key, int pidfd, int signal);
  // Before the first code is sent to it, and any after that.
  void used(const void* key);
  void remove(const void* key);
  // The signals are pending when the tenant is thawed, so the handlers come before other code.
  void signal_all();

 private:
  struct Entry {
    UniqueFd pidfd;
    int signal = 0;
    bool used = false;
    bool missed = false;  // a wake before it was used
  };
  std::mutex mutex_;
  std::map<const void*, Entry> entries_;  // guarded by mutex_
};

}  // namespace firebreak::guest
