#include "client/landing.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "client/unpack.h"

namespace firebreak::client {
namespace {

constexpr mode_t kNewDirectory = 0755;

bool is_directory(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_directory(path, ec);
}

// A link that the user has typed is replaced if it leads to a file or nowhere, but /dev/stdout and
// the like stay as they are.
Result<> check_replaceable(const Landing& landing, bool typed, const std::string& path) {
  struct stat st{};
  if (::fstatat(landing.directory.get(), landing.name.c_str(), &st,
                typed ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || errno == ELOOP ? Result<>() : fail_errno(path);
  if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) return {};
  return fail(Code::conflict, path + " is not a regular file here",
              Repair{"choose another target"});
}

}  // namespace

Result<Landing> land_file(const std::string& target, const std::string& source) {
  const bool inside = is_directory(target);
  const auto slash = target.rfind('/');
  std::string directory = inside                       ? target
                          : slash == std::string::npos ? "."
                                                       : target.substr(0, slash + 1);
  std::string name = inside ? source : target.substr(slash == std::string::npos ? 0 : slash + 1);
  if (!inside && name.empty())
    return fail(Code::not_found, target + " is not a directory here", Repair{"make it first"});
  if (name.empty() || name == "." || name == ".." || name.contains('/') || name.contains('\0'))
    return fail(Code::invalid, "the source has no file name",
                Repair{"name the file in the target, too"});
  FB_TRY_ASSIGN(UniqueFd opened, sys::open(directory, O_PATH | O_DIRECTORY));
  Landing landing{.directory = std::move(opened), .name = std::move(name)};
  FB_TRY(check_replaceable(landing, !inside, inside ? target + "/" + source : target));
  return landing;
}

Result<UniqueFd> land_directory(const std::string& target, const std::string& source) {
  const bool existed = is_directory(target);
  if (!existed) FB_TRY(sys::mkdirs(target, kNewDirectory));
  FB_TRY_ASSIGN(UniqueFd directory, sys::open(target, O_PATH | O_DIRECTORY));
  if (!existed || source.empty() || source == ".") return directory;
  FB_TRY_ASSIGN(Entered entered, enter_directory(directory.get(), source, kNewDirectory));
  return std::move(entered.directory);
}

}  // namespace firebreak::client
