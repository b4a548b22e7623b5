// Policies of roles: what is accepted says the same when it is written and read again, and a deny
// is never outweighed. The first line is the resource that is asked for.
#include <cstdlib>

#include "core/role.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = input.find('\n');
  if (line == std::string_view::npos) return 0;
  const auto object = parse_json_object(input.substr(line + 1));
  if (!object) return 0;
  auto policy = core::parse_role_policy(*object);
  if (!policy) return 0;
  const auto again = core::parse_role_policy(core::to_json(*policy));
  if (!again || *again != *policy) std::abort();
  const core::RoleRequest request{"s3:GetObject", input.substr(0, line), input.substr(0, line)};
  const core::RoleVerdict verdict = core::decide(*policy, request);
  policy->statements.push_back(
      {.sid = "", .allow = true, .actions = {"*"}, .resources = {"*"}, .prefixes = {}});
  const bool denied = core::decide(*policy, request) == core::RoleVerdict::denied;
  if (denied != (verdict == core::RoleVerdict::denied)) std::abort();
  return 0;
}
