#include "machine/file_hash.h"

#include <sys/stat.h>

namespace firebreak::machine {

Result<FileHash::Stamp> FileHash::stamp() const {
  struct stat st{};
  if (::stat(path_.c_str(), &st) != 0) return fail_errno("stat " + path_);
  return Stamp{.device = st.st_dev,
               .inode = st.st_ino,
               .size = static_cast<std::uint64_t>(st.st_size),
               .changed_s = st.st_ctim.tv_sec,
               .changed_ns = st.st_ctim.tv_nsec};
}

Result<std::string> FileHash::get() {
  const std::scoped_lock lock(mutex_);
  // Before the bytes: what is written meanwhile makes the next look a new one.
  FB_TRY_ASSIGN(const Stamp now, stamp());
  if (known_ == now) return hash_;
  FB_TRY_ASSIGN(hash_, read_(path_));
  known_ = now;
  return hash_;
}

}  // namespace firebreak::machine
