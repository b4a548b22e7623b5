// Roles: what short-lived credentials may do. A policy is the part of an IAM policy document that
// matters here, with its meaning: what nothing allows is denied, and a deny beats every allow.
// Values; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::core {

inline constexpr std::size_t kMaxRolePolicy = 10240;  // bytes of its JSON, as on AWS
inline constexpr std::size_t kMaxRoleStatements = 50;
inline constexpr std::size_t kMaxRolePatterns = 100;  // of one list
inline constexpr std::size_t kMaxRolePattern = 1024;  // bytes

// Patterns: '*' is any text, also none and across '/'; '?' is one character.
struct RoleStatement {
  std::string sid;  // a name of the author's
  bool allow = true;
  std::vector<std::string> actions;  // "s3:GetObject", "s3:Get*", "*"; in any case
  std::vector<std::string> resources;
  std::vector<std::string> prefixes;  // of s3:ListBucket: the listing's prefix; empty: any
  friend bool operator==(const RoleStatement&, const RoleStatement&) = default;
};

struct RolePolicy {
  std::vector<RoleStatement> statements;
  friend bool operator==(const RolePolicy&, const RolePolicy&) = default;
};

struct Role {
  std::string name;  // unique within the tenant
  std::string id;    // "AROA..."; another one when a role is removed and made again
  RolePolicy policy;
  Time created{};
  friend bool operator==(const Role&, const Role&) = default;
};

// What is about to be done.
struct RoleRequest {
  std::string_view action;
  std::string_view resource;
  std::optional<std::string_view> prefix;  // of a listing
};

enum class RoleVerdict { allowed, not_allowed, denied };
RoleVerdict decide(const RolePolicy& policy, const RoleRequest& request);

// Letters, digits and "_+=,.@-", 1 to 64.
Result<> check_role_name(std::string_view name);
std::string new_role_id();

// arn:aws:iam::ACCOUNT:role/NAME
std::string role_arn(const TenantId& tenant, std::string_view name);
struct RoleName {
  TenantId tenant;
  std::string name;  // without a path that stands in front of it
};
std::optional<RoleName> parse_role_arn(std::string_view arn);

// {"Version"?, "Statement": {..} | [{"Sid"?, "Effect", "Action", "Resource", "Condition"?}]}.
// Anything else is refused: what is misspelt and ignored would allow more than was meant.
Result<RolePolicy> parse_role_policy(const json::object& document);
json::object to_json(const RolePolicy& policy);

}  // namespace firebreak::core
