#include "client/unpack.h"

#include <algorithm>
#include <cerrno>
#include <ranges>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::client {
namespace {

using wire::TarEntry;
using wire::TarType;

// No links at all: not to a place outside of the directory, and not to one inside.
constexpr std::uint64_t kNoLinks = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
constexpr std::int64_t kNanos = 1'000'000'000;
constexpr std::size_t kMaxTracked = 65536;
constexpr std::size_t kMaxTrackedBytes = std::size_t{8} << 20;
constexpr mode_t kPlainModes = 0777;
constexpr mode_t kPrivateDirectory = 0700;
constexpr int kAttempts = 3;

// "a/b" of "a//./b/". An archive of a directory has no reason for absolute names and `..`.
Result<std::string> entry_path(const std::string& path) {
  if (path.contains('\0')) return fail(Code::invalid, "the path holds a NUL byte");
  if (path.starts_with('/')) return fail(Code::invalid, "the path is absolute");
  std::string out;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return fail(Code::invalid, "the path contains '..'");
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

void set_time(int fd, std::int64_t mtime_ns) {
  std::int64_t seconds = mtime_ns / kNanos;
  std::int64_t rest = mtime_ns % kNanos;
  if (rest < 0) {
    rest += kNanos;
    --seconds;
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                             {.tv_sec = seconds, .tv_nsec = rest}};
  // Times are a courtesy: not every file system keeps every time.
  (void)::futimens(fd, times);
}

// What `make` makes under a temporary name and `check` accepts becomes `name`.
template <class Make, class Check>
Result<> put(int parent, const std::string& name, Make make, Check check) {
  const std::string temporary = temporary_name();
  if (make(temporary.c_str()) != 0) return fail_errno("create");
  auto done = check(temporary.c_str());
  if (done && ::renameat(parent, temporary.c_str(), parent, name.c_str()) != 0)
    done = fail_errno("replace " + shown(name));
  // Also after a success: a rename between two names of one file leaves both.
  (void)::unlinkat(parent, temporary.c_str(), 0);
  return done;
}

}  // namespace

bool stays_inside(std::string_view path, std::string_view link_target) {
  if (link_target.starts_with('/')) return false;
  auto above = std::ranges::count(path, '/');  // directories between the link and the target
  bool named = false;
  for (const std::string_view part : split(link_target, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      named = true;
    } else if (named || above-- == 0) {
      return false;
    }
  }
  return true;
}

Result<Entered> enter_directory(int parent, const std::string& name, mode_t mode) {
  if (name.empty() || name == "." || name == ".." || name.contains('/') || name.contains('\0'))
    return fail(Code::invalid, "'" + shown(name) + "' does not name an entry of a directory");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool made = ::mkdirat(parent, name.c_str(), mode) == 0;
    if (!made && errno != EEXIST) return fail_errno("mkdir " + shown(name));
    auto directory = open_below(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks);
    if (directory) return Entered{.directory = *std::move(directory), .made = made};
    if (::unlinkat(parent, name.c_str(), 0) != 0 && errno != ENOENT)
      return fail_errno("replace " + shown(name));
  }
  return fail(Code::conflict, shown(name) + ": the name is taken again and again");
}

Result<> Unpack::finish() {
  FB_TRY(reader_.finish());
  // From the inside to the outside: a mode may close the way in.
  for (const Directory& made : directories_ | std::views::reverse) {
    const auto directory = open_below(target_.get(), made.path, O_RDONLY | O_DIRECTORY, kNoLinks);
    if (!directory) continue;
    set_time(directory->get(), made.mtime_ns);
    if (::fchmod(directory->get(), made.mode) != 0) return fail_errno("chmod " + shown(made.path));
  }
  directories_.clear();
  return {};
}

Result<> Unpack::on_entry(const TarEntry& entry) {
  const auto doing = [&entry] { return "unpacking " + shown(entry.path); };
  const auto path = entry_path(entry.path);
  if (!path) return fail(path.error(), doing());
  if (path->empty()) {
    // The directory itself was chosen by the user and keeps its mode.
    if (entry.type == TarType::dir) return {};
    return fail(Code::invalid, doing() + ": names the directory itself");
  }
  if (auto made = make(entry, *path); !made) return fail(std::move(made).error(), doing());
  return {};
}

Result<> Unpack::make(const TarEntry& entry, const std::string& path) {
  if (entry.type == TarType::fifo || entry.type == TarType::device) {
    ++changes_.left_out;
    return {};
  }
  const auto slash = path.rfind('/');
  FB_TRY(enter_parent(slash == std::string::npos ? "." : path.substr(0, slash)));
  name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  switch (entry.type) {
    case TarType::dir:
      return make_directory(entry, path);
    case TarType::symlink:
      return make_symlink(entry, path);
    case TarType::hardlink:
      return make_hardlink(entry);
    default:
      return begin_file(entry);
  }
}

// Keeps the descriptor for the entries that follow in the same directory.
Result<> Unpack::enter_parent(const std::string& parent) {
  if (parent_path_ == parent) return {};
  parent_path_.reset();
  auto opened =
      make_dirs(target_.get(), parent, {.mode = kPlainModes & ~mask_, .owner = {}}, kNoLinks);
  if (!opened && opened.error().code == Code::denied)
    return fail(Code::denied, "a link is in the way, or you may not enter the directory",
                Repair{"remove it, or choose another target"});
  if (!opened) return std::unexpected(std::move(opened).error());
  parent_ = *std::move(opened);
  parent_path_ = parent;
  return {};
}

Result<> Unpack::make_directory(const TarEntry& entry, const std::string& path) {
  FB_TRY_ASSIGN(const Entered entered, enter_directory(parent_.get(), name_, kPrivateDirectory));
  if (!entered.made) return {};
  const mode_t mode = entry.mode & kPlainModes & ~mask_;
  if (directories_.size() < kMaxTracked && directories_bytes_ + path.size() <= kMaxTrackedBytes) {
    directories_bytes_ += path.size();
    directories_.push_back({path, mode, entry.mtime_ns});
    return {};
  }
  FB_TRY_ASSIGN(const UniqueFd directory,
                open_below(entered.directory.get(), ".", O_RDONLY | O_DIRECTORY, kNoLinks));
  return set_owner_and_mode(directory.get(), std::nullopt, mode | kPrivateDirectory);
}

Result<> Unpack::make_symlink(const TarEntry& entry, const std::string& path) {
  if (stays_inside(path, entry.link_target)) {
    return put(
        parent_.get(), name_,
        [&](const char* name) {
          return ::symlinkat(entry.link_target.c_str(), parent_.get(), name);
        },
        [](const char*) { return Result<>(); });
  }
  if (changes_.texts++ == 0) changes_.example = path;
  TarEntry text = entry;
  text.mode = 0644;
  FB_TRY(begin_file(text));
  return on_data(entry.link_target);  // on_entry_end() follows, as for every entry
}

Result<> Unpack::make_hardlink(const TarEntry& entry) {
  FB_TRY_ASSIGN(const std::string target, entry_path(entry.link_target));
  FB_TRY_ASSIGN(const Place from, place_of(target_.get(), target, kNoLinks));
  return put(
      parent_.get(), name_,
      [&](const char* name) {
        return ::linkat(from.parent.get(), from.name.c_str(), parent_.get(), name, 0);
      },
      [&](const char* name) -> Result<> {
        struct stat st{};
        if (::fstatat(parent_.get(), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
          return fail_errno("stat");
        if (S_ISREG(st.st_mode)) return {};
        return fail(Code::denied, "the hard link does not lead to a regular file");
      });
}

Result<> Unpack::begin_file(const TarEntry& entry) {
  FB_TRY_ASSIGN(file_, NewFile::create(parent_.get()));
  entry_ = entry;
  return {};
}

Result<> Unpack::on_data(std::string_view bytes) {
  return sys::write_all(file_->fd(), bytes);
}

Result<> Unpack::on_entry_end() {
  if (!file_) return {};
  const auto done = [this]() -> Result<> {
    FB_TRY(set_owner_and_mode(file_->fd(), std::nullopt, entry_.mode & kPlainModes & ~mask_));
    set_time(file_->fd(), entry_.mtime_ns);
    return file_->commit(name_);
  }();
  file_.reset();
  if (!done) return fail(done.error(), "unpacking " + shown(entry_.path));
  return {};
}

}  // namespace firebreak::client
