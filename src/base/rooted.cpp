#include "base/rooted.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak {
namespace {

// openat2 gives EAGAIN when a rename somewhere on the system made `..` unsafe to decide.
constexpr int kResolveAttempts = 100;
constexpr std::size_t kShownPath = 200;
constexpr std::size_t kRemoveLevels = 32;
constexpr int kRemovePasses = 4;

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

std::string shown(std::string_view path) {
  const std::string text = percent_encode(path.substr(0, kShownPath), "/ !#$&'()*+,:;=?@[]^`{|}");
  return path.size() > kShownPath ? text + "..." : text;
}

Result<UniqueFd> open_below(int dir, const std::string& path, int flags, std::uint64_t resolve,
                            mode_t mode) {
  if (path.empty()) return fail(Code::invalid, "the path is empty");
  if (path.contains('\0')) return fail(Code::invalid, "the path holds a NUL byte");
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = mode;
  how.resolve = resolve;
  long fd = -1;
  for (int attempt = 0; attempt < kResolveAttempts; ++attempt) {
    fd = ::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how);
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  if (errno == EXDEV && (resolve & RESOLVE_NO_XDEV) == 0)
    return fail(Code::denied, shown(path) + ": leads out of the directory");
  return fail_errno(shown(path));
}

Result<Place> place_of(int dir, const std::string& path, std::uint64_t resolve) {
  const std::string_view trimmed = without_trailing_slashes(path);
  const auto slash = trimmed.rfind('/');
  std::string name(slash == std::string_view::npos ? trimmed : trimmed.substr(slash + 1));
  if (name.empty() || name == "." || name == ".." || name.contains('\0'))
    return fail(Code::invalid, "'" + shown(path) + "' does not name an entry of a directory");
  const std::string parent =
      slash == std::string_view::npos ? "." : std::string(trimmed.substr(0, slash + 1));
  FB_TRY_ASSIGN(UniqueFd fd, open_below(dir, parent, O_PATH | O_DIRECTORY, resolve));
  return Place{.parent = std::move(fd), .name = std::move(name)};
}

Result<bool> make_dir(int parent, const std::string& name, const NewDir& as) {
  if (::mkdirat(parent, name.c_str(), as.mode & 0700) != 0) {
    if (errno == EEXIST) return false;
    return fail_errno("mkdir " + shown(name));
  }
  FB_TRY_ASSIGN(UniqueFd fd, open_below(parent, name, O_RDONLY | O_DIRECTORY, kSameMount));
  FB_TRY(set_owner_and_mode(fd.get(), as.owner, as.mode));
  return true;
}

Result<UniqueFd> make_dirs(int dir, const std::string& path, const NewDir& as,
                           std::uint64_t resolve) {
  constexpr int kFlags = O_PATH | O_DIRECTORY;
  auto found = open_below(dir, path, kFlags, resolve);
  if (found || found.error().code != Code::not_found) return found;
  // Each prefix is walked from the start, so that links and `..` in it mean what they mean to the
  // kernel.
  const std::size_t length = without_trailing_slashes(path).size();
  for (std::size_t end = 0; end < length;) {
    end = std::min(path.find('/', path.find_first_not_of('/', end)), length);
    const std::string prefix = path.substr(0, end);
    found = open_below(dir, prefix, kFlags, resolve);
    if (found) continue;
    if (found.error().code != Code::not_found) return found;
    FB_TRY_ASSIGN(const Place place, place_of(dir, prefix, resolve));
    FB_TRY(make_dir(place.parent.get(), place.name, as));
    found = open_below(dir, prefix, kFlags, resolve);
    if (!found) return found;
  }
  return found;
}

Result<> set_owner_and_mode(int fd, const std::optional<Owner>& owner, std::optional<mode_t> mode) {
  if (owner && ::fchown(fd, owner->uid, owner->gid) != 0) return fail_errno("chown");
  if (mode && ::fchmod(fd, *mode & 07777) != 0) return fail_errno("chmod");
  return {};
}

std::int64_t mtime_ns(const struct stat& st) {
  constexpr std::int64_t kNanos = 1'000'000'000;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kNanos - 1;
  return std::clamp<std::int64_t>(st.st_mtim.tv_sec, -kMost, kMost) * kNanos + st.st_mtim.tv_nsec;
}

Result<std::string> read_link(int dir, const std::string& name) {
  char buffer[PATH_MAX];
  const ssize_t n = ::readlinkat(dir, name.c_str(), buffer, sizeof buffer);
  if (n < 0) return fail_errno("readlink " + shown(name));
  return std::string(buffer, static_cast<std::size_t>(n));
}

Result<DirStream> open_dir(int dir, const std::string& path, std::uint64_t resolve) {
  FB_TRY_ASSIGN(UniqueFd fd, open_below(dir, path, O_RDONLY | O_DIRECTORY, resolve));
  DirStream stream(::fdopendir(fd.get()));
  if (!stream) return fail_errno("list " + shown(path));
  (void)fd.release();
  return stream;
}

Result<const dirent*> next_entry(DIR* dir) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir);
    if (entry == nullptr && errno == ENOENT) return nullptr;  // the directory was removed
    if (entry == nullptr && errno != 0) return fail_errno("list");
    if (entry == nullptr) return nullptr;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
}

std::string temporary_name() {
  return ".fb-" + sys::random_hex(8);
}

Result<std::unique_ptr<NewFile>> NewFile::create(int parent) {
  std::string name = temporary_name();
  const int fd =
      ::openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return fail_errno("create a file");
  return std::unique_ptr<NewFile>(new NewFile(parent, std::move(name), UniqueFd(fd)));
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlinkat(parent_, temporary_.c_str(), 0);
}

Result<> NewFile::commit(const std::string& name) {
  if (::renameat(parent_, temporary_.c_str(), parent_, name.c_str()) != 0)
    return fail_errno("replace " + shown(name));
  temporary_.clear();
  return {};
}

namespace {

class TreeRemover {
 public:
  explicit TreeRemover(int parent) : parent_(parent) {}

  Result<> run(const std::string& name) {
    FB_TRY(enter(parent_, name));
    while (!levels_.empty()) {
      FB_TRY_ASSIGN(const dirent* entry, next_entry(levels_.back().dir.get()));
      if (entry != nullptr) {
        const std::string child = entry->d_name;
        FB_TRY(remove_child(levels_.back().fd, child, entry->d_type == DT_DIR));
      } else {
        FB_TRY(leave());
      }
    }
    return {};
  }

 private:
  struct Level {
    DirStream dir;
    int fd;  // of dir
    std::string name;
    int passes = 0;
  };

  Result<> enter(int dir, const std::string& name) {
    auto stream = open_dir(dir, name, kSameMount);
    if (stream) {
      const int fd = ::dirfd(stream->get());
      levels_.push_back({.dir = *std::move(stream), .fd = fd, .name = name});
      return {};
    }
    // Gone or exchanged meanwhile: the next pass over the directory that holds it sees what it is
    // now.
    if (stream.error().code == Code::not_found || stream.error().code == Code::conflict) return {};
    return std::unexpected(std::move(stream).error());
  }

  Result<> remove_child(int dir, const std::string& name, bool is_dir) {
    if (!is_dir) {
      if (::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT) return {};
      if (errno != EISDIR) return fail_errno("remove " + shown(name));
    }
    if (::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTDIR)
      return {};
    if (errno != ENOTEMPTY) return fail_errno("remove " + shown(name));
    if (levels_.size() < kRemoveLevels) return enter(dir, name);
    // Too deep for a descriptor per level: continue with it from the top.
    const std::string moved = temporary_name();
    if (::renameat(dir, name.c_str(), levels_.front().fd, moved.c_str()) != 0 && errno != ENOENT)
      return fail_errno("remove " + shown(name));
    levels_.front().passes = 0;
    return {};
  }

  Result<> leave() {
    Level& level = levels_.back();
    const int holder = levels_.size() == 1 ? parent_ : levels_[levels_.size() - 2].fd;
    if (::unlinkat(holder, level.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      // New entries: moved here from the depth, or made by someone else, who may not keep us for
      // ever.
      if (errno != ENOTEMPTY || ++level.passes > kRemovePasses)
        return fail_errno("remove " + shown(level.name));
      ::rewinddir(level.dir.get());
      return {};
    }
    levels_.pop_back();
    return {};
  }

  int parent_;
  std::vector<Level> levels_;
};

}  // namespace

Result<> remove_tree(int parent, const std::string& name) {
  return TreeRemover(parent).run(name);
}

}  // namespace firebreak
