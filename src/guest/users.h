// Who a user of the tenant is, by the tenant's own /etc/passwd and /etc/group. No NSS: the agent is
// static. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace firebreak::guest {

struct UserSpec {
  uid_t uid = 0;
  gid_t gid = 0;
  // Supplementary; `gid` is always among them, so that a set-group-id program cannot shed it. A
  // spec that names a group has no others.
  std::vector<gid_t> groups;
  std::string home = "/";
  std::string shell = "/bin/sh";
  std::string name;  // empty for a number that /etc/passwd does not know
  friend bool operator==(const UserSpec&, const UserSpec&) = default;
};

// "name", "uid", "name:group", "uid:gid" and mixtures. A number need not be in /etc/passwd: then
// gid 0 and home "/". Code::invalid for a name that is not there.
Result<UserSpec> resolve_user(int root_fd, std::string_view spec);

}  // namespace firebreak::guest
