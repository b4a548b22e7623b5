// Opening and making names below a directory while hostile processes change it: every walk is one
// openat2(2) with its limits, every change names one component in an open directory. Pure functions
// and one resource; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak {

// The directory is "/" for absolute paths and links, and `..` stops there.
inline constexpr std::uint64_t kInRoot = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
// Paths, links and `..` that lead out of the directory are refused.
inline constexpr std::uint64_t kBeneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
// No links at all, and no other mount.
inline constexpr std::uint64_t kSameMount = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// A path for a message: printable ASCII, bounded.
std::string shown(std::string_view path);

// `path` may hold any bytes but NUL and is not empty. Close-on-exec.
Result<UniqueFd> open_below(int dir, const std::string& path, int flags, std::uint64_t resolve,
                            mode_t mode = 0);

struct Place {
  UniqueFd parent;   // O_PATH
  std::string name;  // one component, not "." or ".."
};
// The directory that holds the last component of `path`, which itself need not exist. Code::invalid
// for "/", "." and "..".
Result<Place> place_of(int dir, const std::string& path, std::uint64_t resolve);

struct NewDir {
  mode_t mode = 0755;
  std::optional<Owner> owner;
};
// False if the name exists already, as whatever. The mode is set as given, whatever the umask is.
Result<bool> make_dir(int parent, const std::string& name, const NewDir& as);
// Makes what is missing of `path`; gives its O_PATH descriptor.
Result<UniqueFd> make_dirs(int dir, const std::string& path, const NewDir& as,
                           std::uint64_t resolve);

// Owner first: the kernel clears the set-id bits when the owner changes.
Result<> set_owner_and_mode(int fd, const std::optional<Owner>& owner, std::optional<mode_t> mode);

// Cut to what 64 bits of nanoseconds hold: a tenant chooses its times.
std::int64_t mtime_ns(const struct stat& st);

Result<std::string> read_link(int dir, const std::string& name);

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using DirStream = std::unique_ptr<DIR, DirCloser>;
Result<DirStream> open_dir(int dir, const std::string& path, std::uint64_t resolve);
// The next entry but "." and "..", or nullptr at the end.
Result<const dirent*> next_entry(DIR* dir);

// A name that nobody can foresee.
std::string temporary_name();

// A file under a temporary name that becomes `name` when it is complete, and vanishes if it never
// is.
class NewFile {
 public:
  // `parent` is borrowed and outlives this.
  static Result<std::unique_ptr<NewFile>> create(int parent);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }
  Result<> commit(const std::string& name);

 private:
  NewFile(int parent, std::string temporary, UniqueFd fd)
      : parent_(parent), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

  int parent_;
  std::string temporary_;  // empty once renamed
  UniqueFd fd_;
};

// Removes a directory with everything below, following no link and leaving no mount. Needs a fixed
// number of descriptors for any depth.
Result<> remove_tree(int parent, const std::string& name);

}  // namespace firebreak
