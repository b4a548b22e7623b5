// What many test programs need and none of them is about: made once per build by the first that
// asks, kept below the build directory, and copied for each, so that nobody writes to what another
// reads. One thread; programs that run at once wait for each other.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::testing_support {

// The directory of a snapshot, or a server's data directory with some. One that was made with
// another program, agent, kernel, base or QEMU, or before this host started, is not taken.
class Prepared {
 public:
  // Waits until no other program makes or copies it, and keeps others waiting while this lives.
  explicit Prepared(std::string kind);

  // Copies it to the directory `to`, beside what is there, with its paths changed to `to`; an error
  // if there is none.
  Result<> copy_to(const std::string& to) const;
  // Keeps a copy of `from`, in place of what was kept of this kind. No server runs on `from`.
  Result<> keep(const std::string& from) const;

 private:
  std::string home_;  // of all kinds
  std::string kind_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace firebreak::testing_support
