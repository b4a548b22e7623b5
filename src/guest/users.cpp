#include "guest/users.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>

#include <unistd.h>

#include "base/text.h"
#include "guest/tenant_files.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kMaxDatabase = std::size_t{4} << 20;
constexpr std::size_t kMaxGroups = 65536;  // NGROUPS_MAX

// A tenant without the file has no names; that is not an error.
Result<std::string> read_database(int root_fd, const std::string& path) {
  auto fd = TenantFiles(root_fd).open_read(path);
  if (!fd && fd.error().code == Code::not_found) return std::string();
  if (!fd) return std::unexpected(std::move(fd).error());
  std::string out;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd->get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
    if (out.size() > kMaxDatabase) return fail(Code::exhausted, path + " is too large");
  }
}

// The all-ones id means "unchanged" to the kernel, so nobody has it.
std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto value = parse_u64(text);
  if (!value || *value >= std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

std::optional<UserSpec> find_user(std::string_view passwd, std::string_view name,
                                  std::optional<uid_t> uid) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 7) continue;
    const auto line_uid = parse_id(fields[2]);
    const auto line_gid = parse_id(fields[3]);
    if (!line_uid || !line_gid || fields[0].empty()) continue;
    if (uid ? *line_uid != *uid : fields[0] != name) continue;
    UserSpec user{.uid = *line_uid, .gid = *line_gid, .name = std::string(fields[0])};
    if (!fields[5].empty()) user.home = fields[5];
    if (!fields[6].empty()) user.shell = fields[6];
    return user;
  }
  return std::nullopt;
}

std::optional<gid_t> find_group(std::string_view group, std::string_view name) {
  for (const std::string_view line : split(group, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() >= 4 && fields[0] == name) return parse_id(fields[2]);
  }
  return std::nullopt;
}

std::vector<gid_t> groups_of(std::string_view group, const UserSpec& user) {
  std::vector<gid_t> gids{user.gid};
  for (const std::string_view line : split(group, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 4) continue;
    const auto members = split(fields[3], ',');
    const auto gid = parse_id(fields[2]);
    if (gid && std::ranges::find(members, user.name) != members.end()) gids.push_back(*gid);
  }
  std::ranges::sort(gids);
  gids.erase(std::ranges::unique(gids).begin(), gids.end());
  if (gids.size() > kMaxGroups) gids.resize(kMaxGroups);
  return gids;
}

}  // namespace

Result<UserSpec> resolve_user(int root_fd, std::string_view spec) {
  const auto colon = spec.find(':');
  const std::string_view who = spec.substr(0, colon);
  if (who.empty()) return fail(Code::invalid, "the user is empty");
  FB_TRY_ASSIGN(const std::string passwd, read_database(root_fd, "/etc/passwd"));
  FB_TRY_ASSIGN(const std::string group, read_database(root_fd, "/etc/group"));

  std::optional<UserSpec> user = find_user(passwd, who, std::nullopt);
  if (!user) {
    const auto uid = parse_id(who);
    if (!uid) return fail(Code::invalid, "user '" + shown(who) + "' is not in /etc/passwd");
    user = find_user(passwd, {}, uid);
    if (!user) user = UserSpec{.uid = *uid};
  }
  if (colon == std::string_view::npos) {
    user->groups = user->name.empty() ? std::vector{user->gid} : groups_of(group, *user);
    return *std::move(user);
  }
  const std::string_view named = spec.substr(colon + 1);
  auto gid = find_group(group, named);
  if (!gid) gid = parse_id(named);
  if (!gid) return fail(Code::invalid, "group '" + shown(named) + "' is not in /etc/group");
  user->gid = *gid;
  user->groups = {*gid};
  return *std::move(user);
}

}  // namespace firebreak::guest
