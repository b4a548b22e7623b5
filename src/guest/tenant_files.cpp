#include "guest/tenant_files.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::guest {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel
constexpr mode_t kDefaultMode = 0644;

std::string_view type_name(FileType type) {
  switch (type) {
    case FileType::file:
      return "file";
    case FileType::dir:
      return "dir";
    case FileType::symlink:
      return "symlink";
    case FileType::fifo:
      return "fifo";
    case FileType::socket:
      return "socket";
    case FileType::char_device:
      return "char";
    case FileType::block_device:
      return "block";
  }
  return "file";
}

FileType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return FileType::dir;
    case S_IFLNK:
      return FileType::symlink;
    case S_IFIFO:
      return FileType::fifo;
    case S_IFSOCK:
      return FileType::socket;
    case S_IFCHR:
      return FileType::char_device;
    case S_IFBLK:
      return FileType::block_device;
    default:
      return FileType::file;
  }
}

FileInfo info_of(std::string name, const struct stat& st) {
  return {.name = std::move(name),
          .type = type_of(st.st_mode),
          .size = static_cast<std::uint64_t>(st.st_size),
          .mode = st.st_mode & 07777,
          .uid = st.st_uid,
          .gid = st.st_gid,
          .mtime_ns = mtime_ns(st)};
}

std::string last_component(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path == "/" ? path : path.substr(path.rfind('/') + 1));
}

Result<struct stat> stat_fd(int fd, const std::string& path) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno(shown(path));
  return st;
}

Result<> require_file(const struct stat& st, const std::string& path) {
  if (S_ISREG(st.st_mode)) return {};
  return fail(Code::conflict,
              shown(path) + (S_ISDIR(st.st_mode) ? ": is a directory" : ": is not a regular file"));
}

// Looks before it opens: opening a device has effects, and opening a fifo would wait without
// O_NONBLOCK.
Result<UniqueFd> open_file(int root, const std::string& path, int flags) {
  FB_TRY_ASSIGN(const UniqueFd seen, open_below(root, path, O_PATH, kInRoot));
  FB_TRY_ASSIGN(const struct stat before, stat_fd(seen.get(), path));
  FB_TRY(require_file(before, path));
  FB_TRY_ASSIGN(UniqueFd fd, open_below(root, path, flags | O_NONBLOCK | O_NOCTTY, kInRoot));
  FB_TRY_ASSIGN(const struct stat st, stat_fd(fd.get(), path));
  FB_TRY(require_file(st, path));
  return fd;
}

}  // namespace

json::object to_json(const FileInfo& info) {
  json::object out{{"name", percent_encode(info.name)},
                   {"type", type_name(info.type)},
                   {"size", info.size},
                   {"mode", info.mode},
                   {"uid", info.uid},
                   {"gid", info.gid},
                   {"mtime_ns", info.mtime_ns}};
  if (info.target) out["target"] = percent_encode(*info.target);
  return out;
}

// ---- writing ----

FileWriter::~FileWriter() = default;

Result<> FileWriter::write(std::string_view bytes) {
  if (fresh_) return sys::write_all(fresh_->fd(), bytes);
  if (!offset_) return sys::write_all(in_place_.get(), bytes);
  FB_TRY(sys::pwrite_all(in_place_.get(), std::as_bytes(std::span(bytes)), *offset_));
  *offset_ += bytes.size();
  return {};
}

Result<> FileWriter::commit() {
  if (!fresh_) return {};
  FB_TRY(set_owner_and_mode(fresh_->fd(), owner_, mode_));
  return fresh_->commit(place_.name);
}

Result<std::unique_ptr<FileWriter>> TenantFiles::open_write(const WriteOptions& options) const {
  if (options.append && options.offset)
    return fail(Code::invalid, "append and offset exclude each other");
  if (const auto slash = options.path.rfind('/'); options.parents && slash != std::string::npos)
    FB_TRY(make_dirs(root_, options.path.substr(0, slash + 1), {.owner = options.owner}, kInRoot));

  std::unique_ptr<FileWriter> writer(new FileWriter);
  if (options.append || options.offset) {
    FB_TRY_ASSIGN(writer->in_place_, open_in_place(options));
    writer->offset_ = options.offset;
    return writer;
  }
  FB_TRY_ASSIGN(writer->place_, place_to_write(options.path));
  writer->owner_ = options.owner;
  writer->mode_ = options.mode.value_or(kDefaultMode);
  struct stat old{};
  const int parent = writer->place_.parent.get();
  if (::fstatat(parent, writer->place_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0) {
    FB_TRY(require_file(old, options.path));
    if (!options.owner) writer->owner_ = Owner{.uid = old.st_uid, .gid = old.st_gid};
    if (!options.mode) writer->mode_ = old.st_mode & 07777;
  } else if (errno != ENOENT) {
    return fail_errno(shown(options.path));
  }
  FB_TRY_ASSIGN(writer->fresh_, NewFile::create(parent));
  return writer;
}

// Follows links at the last component by hand: a rename would replace the link instead of what it
// leads to. Each step is resolved inside the root again, so a link that changes meanwhile can only
// choose another place inside.
Result<Place> TenantFiles::place_to_write(std::string path) const {
  for (int links = 0; links < kMaxLinks; ++links) {
    FB_TRY_ASSIGN(Place place, place_of(root_, path, kInRoot));
    if (path.ends_with('/')) return fail(Code::invalid, shown(path) + ": names a directory");
    auto target = read_link(place.parent.get(), place.name);
    if (!target) return place;  // not a link, or nothing there
    if (target->starts_with('/')) {
      path = *std::move(target);
    } else {
      path.replace(path.rfind('/') + 1, std::string::npos, *target);
    }
  }
  return fail(Code::denied, shown(path) + ": too many symbolic links");
}

Result<UniqueFd> TenantFiles::open_in_place(const WriteOptions& options) const {
  const int flags = O_WRONLY | (options.append ? O_APPEND : 0);
  auto fd = open_file(root_, options.path, flags);
  const bool fresh = !fd && fd.error().code == Code::not_found;
  if (fresh) {
    fd = open_below(root_, options.path, flags | O_CREAT | O_NONBLOCK | O_NOCTTY, kInRoot, 0600);
    if (fd) {
      FB_TRY_ASSIGN(const struct stat st, stat_fd(fd->get(), options.path));
      FB_TRY(require_file(st, options.path));
    }
  }
  if (!fd) return fd;
  const auto mode = fresh ? options.mode.value_or(kDefaultMode) : options.mode;
  FB_TRY(set_owner_and_mode(fd->get(), options.owner, mode));
  return fd;
}

// ---- the rest ----

Result<bool> DirLister::next(std::vector<FileInfo>& batch, std::size_t limit) {
  batch.clear();
  const int dir = ::dirfd(dir_.get());
  while (batch.size() < limit) {
    FB_TRY_ASSIGN(const dirent* entry, next_entry(dir_.get()));
    if (entry == nullptr) break;
    struct stat st{};
    // What vanished since is not there.
    if (::fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    FileInfo info = info_of(entry->d_name, st);
    if (info.type == FileType::symlink) {
      auto target = read_link(dir, info.name);
      if (!target) continue;
      info.target = *std::move(target);
    }
    batch.push_back(std::move(info));
  }
  return !batch.empty();
}

Result<FileInfo> TenantFiles::stat(const std::string& path, bool follow) const {
  FB_TRY_ASSIGN(const UniqueFd fd,
                open_below(root_, path, O_PATH | (follow ? 0 : O_NOFOLLOW), kInRoot));
  FB_TRY_ASSIGN(const struct stat st, stat_fd(fd.get(), path));
  FileInfo info = info_of(last_component(path), st);
  if (info.type == FileType::symlink) {
    FB_TRY_ASSIGN(info.target, read_link(fd.get(), ""));
  }
  return info;
}

Result<UniqueFd> TenantFiles::open_read(const std::string& path) const {
  return open_file(root_, path, O_RDONLY);
}

Result<DirLister> TenantFiles::list(const std::string& path) const {
  FB_TRY_ASSIGN(DirStream dir, open_dir(root_, path, kInRoot));
  return DirLister(std::move(dir));
}

Result<> TenantFiles::mkdir(const std::string& path, mode_t mode, bool parents) const {
  if (parents) {
    const auto existing = open_below(root_, path, O_PATH | O_DIRECTORY, kInRoot);
    if (existing) return {};
    const auto end = path.find_last_not_of('/');
    const auto slash = path.rfind('/', end);
    if (slash != std::string::npos)
      FB_TRY(make_dirs(root_, path.substr(0, slash + 1), {}, kInRoot));
  }
  FB_TRY_ASSIGN(const Place place, place_of(root_, path, kInRoot));
  FB_TRY_ASSIGN(const bool made, make_dir(place.parent.get(), place.name, {.mode = mode}));
  if (made) return {};
  // With parents, another one may just have made it.
  if (parents && open_below(root_, path, O_PATH | O_DIRECTORY, kInRoot)) return {};
  return fail(Code::conflict, shown(path) + ": exists already");
}

Result<> TenantFiles::remove(const std::string& path, bool recursive) const {
  FB_TRY_ASSIGN(const Place place, place_of(root_, path, kInRoot));
  const int parent = place.parent.get();
  if (::unlinkat(parent, place.name.c_str(), 0) == 0) return {};
  if (errno != EISDIR) return fail_errno("remove " + shown(path));
  if (::unlinkat(parent, place.name.c_str(), AT_REMOVEDIR) == 0) return {};
  if (errno != ENOTEMPTY || !recursive) return fail_errno("remove " + shown(path));
  return remove_tree(parent, place.name);
}

Result<> TenantFiles::rename(const std::string& from, const std::string& to) const {
  FB_TRY_ASSIGN(const Place source, place_of(root_, from, kInRoot));
  FB_TRY_ASSIGN(const Place target, place_of(root_, to, kInRoot));
  if (::renameat(source.parent.get(), source.name.c_str(), target.parent.get(),
                 target.name.c_str()) != 0)
    return fail_errno("rename " + shown(from) + " to " + shown(to));
  return {};
}

}  // namespace firebreak::guest
