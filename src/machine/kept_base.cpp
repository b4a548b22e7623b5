#include "machine/kept_base.h"

#include <cerrno>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/hash.h"

namespace firebreak::machine {
namespace {

// Another file at the same place, or another content of the same file, is another base.
std::string name_of(const struct stat& file) {
  Sha256 hash;
  for (const std::int64_t part :
       {static_cast<std::int64_t>(file.st_dev), static_cast<std::int64_t>(file.st_ino),
        static_cast<std::int64_t>(file.st_size), static_cast<std::int64_t>(file.st_mtim.tv_sec),
        static_cast<std::int64_t>(file.st_mtim.tv_nsec)})
    hash.update(std::to_string(part) + " ");
  return hash.hex().substr(0, 16) + ".ext4";
}

// What a file system may say that has no room for, or no notion of, another name.
bool cannot_link(int error) {
  return error == EXDEV || error == EPERM || error == EMLINK || error == ENOSPC ||
         error == EOPNOTSUPP;
}

}  // namespace

Result<std::string> keep_base(const std::string& disk, const std::string& directory) {
  std::error_code missing;
  std::string real = std::filesystem::canonical(disk, missing).string();
  if (missing) return disk;
  FB_TRY(sys::mkdirs(directory, 0755));
  const std::string kept_in = std::filesystem::canonical(directory).string();
  if (real.starts_with(kept_in + "/")) return disk;
  struct stat file{};
  if (::stat(real.c_str(), &file) != 0) return fail_errno("stat " + real);
  std::string kept = directory + "/" + name_of(file);
  if (sys::exists(kept)) return kept;
  if (::link(real.c_str(), kept.c_str()) == 0) {
    FB_TRY(sys::fsync_dir(directory));
    return kept;
  }
  if (cannot_link(errno)) return real;
  return fail_errno("link " + kept);
}

}  // namespace firebreak::machine
