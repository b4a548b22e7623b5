#include "guest/tenant_tar.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/tenant_files.h"

namespace firebreak::guest {
namespace {

using wire::TarEntry;
using wire::TarType;

constexpr std::int64_t kNanos = 1'000'000'000;
constexpr std::size_t kMaxDepth = 256;  // a descriptor each
constexpr std::size_t kMaxTracked = 65536;
constexpr std::size_t kMaxTrackedBytes = std::size_t{8} << 20;

Result<struct stat> stat_fd(int fd, std::string_view path) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno(shown(path));
  return st;
}

TarEntry entry_of(std::string path, TarType type, const struct stat& st) {
  return {.path = std::move(path),
          .type = type,
          .mode = st.st_mode & 07777,
          .uid = st.st_uid,
          .gid = st.st_gid,
          .mtime_ns = mtime_ns(st)};
}

}  // namespace

// ---- packing ----

TarSource::~TarSource() = default;

Result<std::unique_ptr<TarSource>> TarSource::open(int root_fd, const std::string& path) {
  const TenantFiles files(root_fd);
  FB_TRY_ASSIGN(const FileInfo info, files.stat(path, true));
  std::unique_ptr<TarSource> source(new TarSource);
  if (info.type == FileType::dir) {
    FB_TRY_ASSIGN(DirStream dir, open_dir(root_fd, path, kInRoot));
    source->levels_.push_back({.dir = std::move(dir), .path_size = 0});
  } else {
    FB_TRY_ASSIGN(source->file_, files.open_read(path));
    source->single_ = info.name;
  }
  return source;
}

Result<bool> TarSource::read(std::string& out, std::size_t want) {
  while (out.size() < want && !finished_) {
    if (!single_.empty()) {
      FB_TRY(add_file(std::move(file_), std::exchange(single_, {}), out));
    } else if (file_) {
      FB_TRY(add_content(out, want - out.size()));
    } else if (!levels_.empty()) {
      FB_TRY(step(out));
    } else {
      wire::TarWriter::finish(out);
      finished_ = true;
    }
  }
  return !finished_;
}

Result<> TarSource::step(std::string& out) {
  Level& level = levels_.back();
  path_.resize(level.path_size);
  FB_TRY_ASSIGN(const dirent* entry, next_entry(level.dir.get()));
  if (entry == nullptr) {
    levels_.pop_back();
    return {};
  }
  const std::string name = entry->d_name;
  return add(::dirfd(level.dir.get()), name, out);
}

Result<> TarSource::add(int dir, const std::string& name, std::string& out) {
  struct stat st{};
  // What vanished since it was listed is left out.
  if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Result<>() : fail_errno(shown(path_ + name));
  switch (st.st_mode & S_IFMT) {
    case S_IFREG: {
      if (const auto first = links_.find({st.st_dev, st.st_ino}); first != links_.end()) {
        TarEntry entry = entry_of(path_ + name, TarType::hardlink, st);
        entry.link_target = first->second;
        return writer_.begin_entry(entry, out);
      }
      auto file = open_below(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
      if (!file) {
        const Code code = file.error().code;
        return code == Code::not_found ? Result<>() : fail(std::move(file).error(), shown(path_));
      }
      return add_file(*std::move(file), path_ + name, out);
    }
    case S_IFLNK: {
      auto target = read_link(dir, name);
      if (!target) return {};  // exchanged since
      TarEntry entry = entry_of(path_ + name, TarType::symlink, st);
      entry.link_target = *std::move(target);
      return writer_.begin_entry(entry, out);
    }
    case S_IFIFO:
      return writer_.begin_entry(entry_of(path_ + name, TarType::fifo, st), out);
    case S_IFDIR:
      break;
    default:
      return {};
  }
  FB_TRY(writer_.begin_entry(entry_of(path_ + name, TarType::dir, st), out));
  auto stream = open_dir(dir, name, kSameMount);
  if (!stream) {
    // A mount keeps its place in the archive, as an empty directory; a directory that went is
    // empty, too.
    const Code code = stream.error().code;
    const bool expected = code == Code::denied || code == Code::not_found || code == Code::conflict;
    return expected ? Result<>() : fail(std::move(stream).error(), shown(path_));
  }
  if (levels_.size() == kMaxDepth)
    return fail(Code::exhausted,
                shown(path_) + ": directories are nested too deeply for an archive");
  path_ += name + "/";
  levels_.push_back({.dir = *std::move(stream), .path_size = path_.size()});
  return {};
}

Result<> TarSource::add_file(UniqueFd file, const std::string& path, std::string& out) {
  FB_TRY_ASSIGN(const struct stat st, stat_fd(file.get(), path));
  if (!S_ISREG(st.st_mode)) return {};  // exchanged since it was looked at
  TarEntry entry = entry_of(path, TarType::file, st);
  entry.size = left_ = static_cast<std::uint64_t>(st.st_size);
  FB_TRY(writer_.begin_entry(entry, out));
  if (left_ > 0) file_ = std::move(file);
  if (st.st_nlink > 1 && links_.size() < kMaxTracked &&
      links_bytes_ + path.size() <= kMaxTrackedBytes &&
      links_.try_emplace({st.st_dev, st.st_ino}, path).second)
    links_bytes_ += path.size();
  return {};
}

// The header promised a size: a file that grew is cut there, one that shrank is filled with zeros.
Result<> TarSource::add_content(std::string& out, std::size_t want) {
  const std::size_t begin = out.size();
  const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left_, want));
  out.resize(begin + part);
  ssize_t n = 0;
  do {
    n = ::read(file_.get(), out.data() + begin, part);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail_errno("read " + shown(path_));
  if (n > 0) out.resize(begin + static_cast<std::size_t>(n));
  left_ -= out.size() - begin;
  if (left_ == 0) {
    file_.reset();
    writer_.end_entry(out);
  }
  return {};
}

// ---- unpacking ----

Result<std::string> archive_path(const std::string& path) {
  std::string out;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return fail(Code::invalid, shown(path) + ": the path contains '..'");
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

namespace {

timespec time_of(std::int64_t ns) {
  std::int64_t seconds = ns / kNanos;
  std::int64_t rest = ns % kNanos;
  if (rest < 0) {
    rest += kNanos;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

bool set_times(int fd, std::int64_t mtime_ns) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(mtime_ns)};
  return ::futimens(fd, times) == 0;
}

Result<> set_all(int fd, const TarEntry& entry) {
  FB_TRY(set_owner_and_mode(fd, Owner{.uid = entry.uid, .gid = entry.gid}, entry.mode));
  if (!set_times(fd, entry.mtime_ns)) return fail_errno("set the time");
  return {};
}

// Runs `create`, which fails with EEXIST for a name in use, after removing what has that name.
template <class Create>
Result<> replace(int parent, const std::string& name, Create create) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (create() == 0) return {};
    if (errno != EEXIST) return fail_errno("create");
    if (::unlinkat(parent, name.c_str(), 0) != 0 && errno != ENOENT) return fail_errno("replace");
  }
  return fail(Code::conflict, "the name is taken again and again");
}

bool same_file(int dir_a, const std::string& a, int dir_b, const std::string& b) {
  struct stat one{};
  struct stat two{};
  return ::fstatat(dir_a, a.c_str(), &one, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstatat(dir_b, b.c_str(), &two, AT_SYMLINK_NOFOLLOW) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

}  // namespace

TarSink::~TarSink() = default;

Result<std::unique_ptr<TarSink>> TarSink::open(int root_fd, const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd target, open_below(root_fd, path, O_PATH | O_DIRECTORY, kInRoot));
  return std::unique_ptr<TarSink>(new TarSink(std::move(target), std::nullopt));
}

Result<std::unique_ptr<TarSink>> TarSink::open_for(int root_fd, const std::string& path,
                                                   std::optional<Owner> owner) {
  FB_TRY_ASSIGN(UniqueFd target, make_dirs(root_fd, path, {.mode = 0755, .owner = owner}, kInRoot));
  return std::unique_ptr<TarSink>(new TarSink(std::move(target), owner));
}

Result<std::unique_ptr<TarSink>> TarSink::open_root(int root_fd) {
  FB_TRY_ASSIGN(UniqueFd target, open_below(root_fd, ".", O_PATH | O_DIRECTORY, kInRoot));
  return std::unique_ptr<TarSink>(
      new TarSink(std::move(target), std::nullopt, kInRoot | RESOLVE_NO_XDEV));
}

Result<> TarSink::finish() {
  FB_TRY(reader_.finish());
  for (const Times& times : dir_times_) {
    // Best effort: the tenant may have moved it meanwhile.
    const auto dir = open_below(target_.get(), times.path, O_RDONLY | O_DIRECTORY,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (dir) set_times(dir->get(), times.mtime_ns);
  }
  dir_times_.clear();
  return {};
}

Result<> TarSink::on_entry(const TarEntry& entry) {
  const auto doing = [&entry] { return "unpacking " + shown(entry.path); };
  const auto path = archive_path(entry.path);
  if (!path) return fail(path.error(), doing());
  if (path->empty()) {
    // The directory itself was chosen by the caller and keeps its mode and owner.
    if (entry.type == TarType::dir) return {};
    return fail(Code::invalid, doing() + ": names the directory itself");
  }
  TarEntry as = entry;
  if (owner_) {
    as.uid = owner_->uid;
    as.gid = owner_->gid;
  }
  if (auto made = make(as, *path); !made) return fail(std::move(made).error(), doing());
  return {};
}

Result<> TarSink::make(const TarEntry& entry, const std::string& path) {
  const auto slash = path.rfind('/');
  FB_TRY(enter_parent(slash == std::string::npos ? "." : path.substr(0, slash)));
  name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  switch (entry.type) {
    case TarType::file: {
      FB_TRY_ASSIGN(file_, NewFile::create(parent_.get()));
      entry_ = entry;
      return {};
    }
    case TarType::dir:
      return make_directory(entry, path);
    case TarType::hardlink:
      return make_hardlink(entry);
    case TarType::fifo:
      return make_fifo(entry);
    case TarType::device:
      return fail(Code::invalid, "device nodes are not unpacked");
    case TarType::symlink:
      break;
  }
  FB_TRY(replace(parent_.get(), name_, [&] {
    return ::symlinkat(entry.link_target.c_str(), parent_.get(), name_.c_str());
  }));
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(entry.mtime_ns)};
  if (::fchownat(parent_.get(), name_.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::utimensat(parent_.get(), name_.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno("set owner and time");
  return {};
}

// Keeps the descriptor for the entries that follow in the same directory.
Result<> TarSink::enter_parent(const std::string& parent) {
  if (parent_path_ == parent) return {};
  parent_path_.reset();
  FB_TRY_ASSIGN(parent_, make_dirs(target_.get(), parent, {.owner = owner_}, resolve_));
  parent_path_ = parent;
  return {};
}

Result<> TarSink::make_directory(const TarEntry& entry, const std::string& path) {
  FB_TRY(make_dir(parent_.get(), name_, {.mode = 0700}));
  auto dir = open_below(parent_.get(), name_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (!dir) {
    // A link to a directory inside, such as bin -> usr/bin, serves as the directory and stays as it
    // is.
    FB_TRY(open_below(target_.get(), path, O_PATH | O_DIRECTORY, resolve_));
    return {};
  }
  FB_TRY(set_all(dir->get(), entry));
  if (dir_times_.size() < kMaxTracked && dir_times_bytes_ + path.size() <= kMaxTrackedBytes) {
    dir_times_bytes_ += path.size();
    dir_times_.push_back({.path = path, .mtime_ns = entry.mtime_ns});
  }
  return {};
}

Result<> TarSink::make_fifo(const TarEntry& entry) {
  FB_TRY(replace(parent_.get(), name_,
                 [&] { return ::mkfifoat(parent_.get(), name_.c_str(), 0600); }));
  // Through a descriptor, because chmod by name would follow a link put in its place.
  FB_TRY_ASSIGN(const UniqueFd fd,
                open_below(parent_.get(), name_, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
  return set_all(fd.get(), entry);
}

Result<> TarSink::make_hardlink(const TarEntry& entry) {
  FB_TRY_ASSIGN(const std::string target, archive_path(entry.link_target));
  FB_TRY_ASSIGN(const Place from, place_of(target_.get(), target, resolve_));
  if (same_file(from.parent.get(), from.name, parent_.get(), name_)) return {};
  return replace(parent_.get(), name_, [&] {
    return ::linkat(from.parent.get(), from.name.c_str(), parent_.get(), name_.c_str(), 0);
  });
}

Result<> TarSink::on_data(std::string_view bytes) {
  return sys::write_all(file_->fd(), bytes);
}

Result<> TarSink::on_entry_end() {
  if (!file_) return {};
  const auto done = [this]() -> Result<> {
    FB_TRY(set_all(file_->fd(), entry_));
    return file_->commit(name_);
  }();
  file_.reset();
  if (!done) return fail(done.error(), "unpacking " + shown(entry_.path));
  return {};
}

}  // namespace firebreak::guest
