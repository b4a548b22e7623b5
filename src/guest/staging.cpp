#include "guest/staging.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/rooted.h"
#include "base/sys.h"

namespace firebreak::guest {
namespace {

constexpr const char* kArea = "/staging";
constexpr std::size_t kMaxMounts = 64;
constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;

Result<std::string> place_for(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (name.empty() || name.size() > 64 || name.find_first_not_of(kAllowed) != std::string::npos)
    return fail(Code::invalid, "a staging's name has 1 to 64 letters, digits, '-' and '_'");
  return std::string(kArea) + "/" + name;
}

Result<bool> is_directory(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("stat");
  return S_ISDIR(st.st_mode);
}

// Every directory on the way to `path` that is not there yet, outermost first.
Result<std::vector<std::string>> missing_on(int root, const std::string& path) {
  std::vector<std::string> missing;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (!prefix.empty() && prefix != "/") {
      if (auto found = open_below(root, prefix, O_PATH, kInRoot); !found) {
        if (found.error().code != Code::not_found) return std::unexpected(found.error());
        missing.push_back(prefix);
      }
    }
    if (end == std::string::npos) return missing;
  }
}

Result<> make_file(int root, const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  FB_TRY_ASSIGN(const UniqueFd directory, make_dirs(root, parent, {}, kInRoot));
  const std::string name = path.substr(slash + 1);
  FB_TRY(open_below(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL, kBeneath, 0644));
  return {};
}

}  // namespace

Result<std::vector<StagedMount>> parse_mounts(const json::object& body) {
  const json::value* list = body.if_contains("mounts");
  if (list == nullptr || !list->is_array() || list->as_array().size() > kMaxMounts)
    return fail(Code::invalid, "mounts must be a list of at most 64");
  std::vector<StagedMount> mounts;
  for (const json::value& item : list->as_array()) {
    if (!item.is_object()) return fail(Code::invalid, "a mount must be an object");
    JsonReader reader(item.as_object(), "mounts.");
    StagedMount mount;
    mount.staging = reader.string("staging");
    mount.path = reader.string_or("path", ".");
    mount.target = reader.string("target");
    mount.readonly = reader.boolean_or("readonly", false);
    if (mount.target.size() < 2 || mount.target.front() != '/')
      reader.reject("target", "must be an absolute path below /");
    FB_TRY(reader.result());
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Result<> create_staging(const std::string& name, std::uint64_t bytes) {
  FB_TRY_ASSIGN(const std::string path, place_for(name));
  if (::mkdir(kArea, 0700) != 0 && errno != EEXIST) return fail_errno("mkdir /staging");
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return {};
    return fail_errno("mkdir " + path);
  }
  const std::string options = bytes == 0 ? "mode=0755" : "mode=0755,size=" + std::to_string(bytes);
  if (::mount("staging", path.c_str(), "tmpfs", kFlags, options.c_str()) != 0)
    return fail_errno("mount " + path);
  return {};
}

Result<> remove_staging(const std::string& name) {
  FB_TRY_ASSIGN(const std::string path, place_for(name));
  if (::umount2(path.c_str(), MNT_DETACH) != 0) return fail_errno("unmount " + path);
  if (::rmdir(path.c_str()) != 0) return fail_errno("rmdir " + path);
  return {};
}

Result<UniqueFd> open_staging(const std::string& name) {
  FB_TRY_ASSIGN(const std::string path, place_for(name));
  return sys::open(path, O_PATH | O_DIRECTORY);
}

Result<UniqueFd> detach_part(const StagedMount& mount) {
  FB_TRY_ASSIGN(const UniqueFd staging, open_staging(mount.staging));
  FB_TRY_ASSIGN(const UniqueFd part, open_below(staging.get(), mount.path, O_PATH, kBeneath));
  UniqueFd tree(static_cast<int>(::syscall(SYS_open_tree, part.get(), "",
                                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)));
  if (!tree) return fail_errno("open_tree of staging " + mount.staging);
  if (!mount.readonly) return tree;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0)
    return fail_errno("making a mount read-only");
  return tree;
}

Result<> StepMounts::add(int root, const StagedMount& mount, UniqueFd tree) {
  Mounted entry{.target = mount.target, .made = {}};
  FB_TRY_ASSIGN(entry.directory, is_directory(tree.get()));
  FB_TRY_ASSIGN(entry.made, missing_on(root, mount.target));
  mounted_.push_back(entry);  // what is made from here on is removed by clear()
  if (entry.directory) {
    FB_TRY(make_dirs(root, mount.target, {}, kInRoot));
  } else if (!entry.made.empty()) {
    FB_TRY(make_file(root, mount.target));
  }
  FB_TRY_ASSIGN(const UniqueFd target, open_below(root, mount.target, O_PATH, kInRoot));
  if (::syscall(SYS_move_mount, tree.get(), "", target.get(), "",
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
    return fail_errno("mount on " + shown(mount.target));
  return {};
}

Result<> StepMounts::clear(int root) {
  Result<> first;
  while (!mounted_.empty()) {
    const Mounted entry = std::move(mounted_.back());
    mounted_.pop_back();
    // This thread's root is the tenant's.
    if (::umount2(entry.target.c_str(), MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT &&
        first)
      first = fail_errno("unmount " + shown(entry.target));
    for (std::size_t i = entry.made.size(); i-- > 0;) {
      const bool last = i + 1 == entry.made.size();
      auto place = place_of(root, entry.made[i], kInRoot);
      // A directory that the step has put something in stays, as it would in any build.
      if (!place || ::unlinkat(place->parent.get(), place->name.c_str(),
                               last && !entry.directory ? 0 : AT_REMOVEDIR) != 0)
        break;
    }
  }
  return first;
}

}  // namespace firebreak::guest
