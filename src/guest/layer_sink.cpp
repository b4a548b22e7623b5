#include "guest/layer_sink.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::guest {
namespace {

using wire::TarEntry;
using wire::TarType;

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kInternal = ".wh..wh.";  // of a file system that images once came from
constexpr std::uint64_t kInLayer = kInRoot | RESOLVE_NO_XDEV;
constexpr int kMaxAroundMounts = 8;

// What is mounted cannot be removed, nor what holds it; everything else can, and is.
Result<> remove_any(int dir, const std::string& name, int depth = 0) {
  struct stat st{};
  if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Result<>() : fail_errno("remove " + shown(name));
  if (!S_ISDIR(st.st_mode)) {
    if (::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT || errno == EBUSY) return {};
    return fail_errno("remove " + shown(name));
  }
  auto removed = remove_tree(dir, name);
  if (removed || (removed.error().code != Code::conflict && removed.error().code != Code::denied))
    return removed;
  if (depth == kMaxAroundMounts) return removed;
  const auto inside = open_dir(dir, name, kSameMount);
  if (!inside) return {};  // a mount itself
  for (;;) {
    FB_TRY_ASSIGN(const dirent* entry, next_entry(inside->get()));
    if (entry == nullptr) return {};
    const std::string child = entry->d_name;
    FB_TRY(remove_any(::dirfd(inside->get()), child, depth + 1));
  }
}

Result<> remove_contents(int root, const std::string& path) {
  const auto dir = open_dir(root, path, kInLayer);
  if (!dir) return {};
  for (;;) {
    FB_TRY_ASSIGN(const dirent* entry, next_entry(dir->get()));
    if (entry == nullptr) return {};
    const std::string child = entry->d_name;
    FB_TRY(remove_any(::dirfd(dir->get()), child));
  }
}

}  // namespace

Result<std::unique_ptr<LayerSink>> LayerSink::open(int root_fd) {
  FB_TRY_ASSIGN(UniqueFd root, open_below(root_fd, ".", O_RDONLY | O_DIRECTORY, kInRoot));
  FB_TRY_ASSIGN(auto files, TarSink::open_root(root_fd));
  return std::unique_ptr<LayerSink>(new LayerSink(std::move(root), std::move(files)));
}

Result<> LayerSink::finish() {
  FB_TRY(reader_.finish());
  return files_->finish();
}

Result<> LayerSink::on_entry(const TarEntry& entry) {
  const auto work = [&]() -> Result<> {
    FB_TRY_ASSIGN(const std::string path, archive_path(entry.path));
    if (path.empty()) return set_root(entry);
    const auto slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
    const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name.starts_with(kWhiteout)) return remove(parent, name);
    FB_TRY_ASSIGN(const bool free, make_way(parent, name, entry.type == TarType::dir));
    skipping_ = !free;
    return {};
  };
  skipping_ = true;
  if (auto done = work(); !done)
    return fail(std::move(done).error(), "unpacking " + shown(entry.path));
  return skipping_ ? Result<>() : files_->on_entry(entry);
}

Result<> LayerSink::on_data(std::string_view bytes) {
  return skipping_ ? Result<>() : files_->on_data(bytes);
}

Result<> LayerSink::on_entry_end() {
  return skipping_ ? Result<>() : files_->on_entry_end();
}

Result<> LayerSink::set_root(const TarEntry& entry) {
  if (entry.type != TarType::dir) return fail(Code::invalid, "names the root itself");
  return set_owner_and_mode(root_.get(), Owner{.uid = entry.uid, .gid = entry.gid}, entry.mode);
}

Result<> LayerSink::remove(const std::string& parent, std::string_view whiteout) {
  if (whiteout == kOpaque) return remove_contents(root_.get(), parent);
  if (whiteout.starts_with(kInternal)) return {};
  const std::string name(whiteout.substr(kWhiteout.size()));
  if (name.empty() || name == "." || name == "..")
    return fail(Code::invalid, "a whiteout that names nothing");
  const auto dir = open_below(root_.get(), parent, O_PATH | O_DIRECTORY, kInLayer);
  // Where the directory is not there, nothing of it is left to remove.
  return dir ? remove_any(dir->get(), name) : Result<>();
}

Result<bool> LayerSink::make_way(const std::string& parent, const std::string& name,
                                 bool for_directory) {
  auto dir = make_dirs(root_.get(), parent, {}, kInLayer);
  if (!dir) {
    // Refused for a mount on the way, unless it is refused without that rule, too.
    const auto anyhow = open_below(root_.get(), parent, O_PATH | O_DIRECTORY, kInRoot);
    const bool mounted =
        dir.error().code == Code::denied && (anyhow || anyhow.error().code != Code::denied);
    if (mounted) return false;
    return std::unexpected(std::move(dir).error());
  }
  const auto there =
      open_below(dir->get(), name, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_XDEV);
  if (!there && there.error().code == Code::not_found) return true;
  if (!there && there.error().code == Code::denied) return false;
  if (!there) return std::unexpected(there.error());
  struct stat st{};
  if (::fstat(there->get(), &st) != 0) return fail_errno("stat");
  // A link to a directory is not one: the layer's directory takes its place.
  if (S_ISDIR(st.st_mode) != for_directory) FB_TRY(remove_any(dir->get(), name));
  return true;
}

}  // namespace firebreak::guest
