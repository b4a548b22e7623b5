#include "core/role.h"

#include <algorithm>
#include <array>

#include "base/sys.h"

namespace firebreak::core {
namespace {

constexpr std::string_view kArnStart = "arn:aws:iam::";
constexpr std::string_view kArnRole = ":role/";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Only the last '*' ever needs to take more, so the time is at most text times pattern.
template <class Same>
bool matches(std::string_view pattern, std::string_view text, Same same) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;  // where the text goes on behind the last star
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || same(pattern[p], text[t]))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool any_action(const std::vector<std::string>& patterns, std::string_view action) {
  return std::ranges::any_of(patterns, [action](const std::string& pattern) {
    return matches(pattern, action, [](char a, char b) { return lower(a) == lower(b); });
  });
}

bool any_text(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns, [text](const std::string& pattern) {
    return matches(pattern, text, [](char a, char b) { return a == b; });
  });
}

// A condition on what the request does not have is not met.
bool applies(const RoleStatement& statement, const RoleRequest& request) {
  return any_action(statement.actions, request.action) &&
         any_text(statement.resources, request.resource) &&
         (statement.prefixes.empty() ||
          (request.prefix && any_text(statement.prefixes, *request.prefix)));
}

bool is_role_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("_+=,.@-").find(c) != std::string_view::npos;
}

}  // namespace

RoleVerdict decide(const RolePolicy& policy, const RoleRequest& request) {
  RoleVerdict verdict = RoleVerdict::not_allowed;
  for (const RoleStatement& statement : policy.statements) {
    if (!applies(statement, request)) continue;
    if (!statement.allow) return RoleVerdict::denied;
    verdict = RoleVerdict::allowed;
  }
  return verdict;
}

Result<> check_role_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, is_role_character))
    return fail(Code::invalid, "a role's name is 1 to 64 letters, digits and _+=,.@-",
                Repair{"choose another name"});
  return {};
}

std::string new_role_id() {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  std::array<std::byte, 17> bytes;
  sys::random_bytes(bytes);
  std::string id = "AROA";
  for (std::byte b : bytes) id += kDigits[std::to_integer<std::size_t>(b) % kDigits.size()];
  return id;
}

std::string role_arn(const TenantId& tenant, std::string_view name) {
  return std::string(kArnStart) + tenant.str() + std::string(kArnRole) + std::string(name);
}

std::optional<RoleName> parse_role_arn(std::string_view arn) {
  if (!arn.starts_with(kArnStart)) return std::nullopt;
  arn.remove_prefix(kArnStart.size());
  const auto tenant = parse_tenant_id(arn.substr(0, 12));
  if (!tenant || !arn.substr(12).starts_with(kArnRole)) return std::nullopt;
  const std::string_view name = arn.substr(arn.rfind('/') + 1);
  if (!check_role_name(name)) return std::nullopt;
  return RoleName{*tenant, std::string(name)};
}

}  // namespace firebreak::core
