// JSON of roles' policies: IAM's words, read strictly.
#include "core/request_fields.h"
#include "core/role.h"

namespace firebreak::core {
namespace {

constexpr std::string_view kVersion = "2012-10-17";
constexpr std::string_view kPrefixKey = "s3:prefix";

std::unexpected<Error> wrong(const std::string& path, std::string_view why, Repair repair = {}) {
  return fail(Code::invalid, "'" + path + "' " + std::string(why), std::move(repair));
}

// A text, or a list of texts.
Result<std::vector<std::string>> read_patterns(const json::value& value, const std::string& path) {
  json::array list;
  if (value.is_string()) {
    list.push_back(value);
  } else if (value.is_array()) {
    list = value.as_array();
  }
  if (list.empty() || list.size() > kMaxRolePatterns)
    return wrong(path, "must be a text or a list of 1 to 100 texts");
  std::vector<std::string> patterns;
  for (const json::value& each : list) {
    if (!each.is_string() || each.as_string().size() > kMaxRolePattern)
      return wrong(path, "must hold texts of at most 1024 bytes");
    patterns.emplace_back(each.as_string());
    if (patterns.back().contains("${"))
      return wrong(path, "has a policy variable, and those are not supported");
  }
  return patterns;
}

Result<std::vector<std::string>> read_condition(const json::value& value, const std::string& path) {
  const json::object* condition = value.if_object();
  if (condition == nullptr || condition->size() != 1)
    return wrong(path, "must have one operator, StringLike or StringEquals");
  const bool like = condition->begin()->key() == "StringLike";
  const std::string inner = path + "." + std::string(condition->begin()->key());
  const json::object* keys = condition->begin()->value().if_object();
  if (keys == nullptr || keys->size() != 1) return wrong(inner, "must have one key, s3:prefix");
  FB_TRY_ASSIGN(auto prefixes,
                read_patterns(keys->begin()->value(), inner + "." + std::string(kPrefixKey)));
  for (const std::string& prefix : prefixes) {
    if (!like && prefix.find_first_of("*?") != std::string::npos)
      return wrong(inner, "takes '*' and '?' as they are", Repair{"use StringLike"});
  }
  return prefixes;
}

Result<> check_actions(const std::vector<std::string>& actions, const std::string& path) {
  for (const std::string& action : actions) {
    if (action != "*" && (action.find(':') == std::string::npos || action.starts_with(':')))
      return wrong(path, "must be like \"s3:GetObject\", \"lambda:*\" or \"*\"");
  }
  return {};
}

Result<RoleStatement> read_statement(const json::value& value, const std::string& path) {
  const json::object* object = &value.as_object();
  const std::string inner = path + ".";
  JsonReader reader(*object, inner);
  RoleStatement statement;
  statement.sid = reader.string_or("Sid", "");
  statement.allow = reader.string("Effect") == "Allow";
  FB_TRY(reader.result());
  FB_TRY_ASSIGN(statement.actions, read_patterns(object->at("Action"), inner + "Action"));
  FB_TRY(check_actions(statement.actions, inner + "Action"));
  FB_TRY_ASSIGN(statement.resources, read_patterns(object->at("Resource"), inner + "Resource"));
  if (const json::value* condition = object->if_contains("Condition")) {
    FB_TRY_ASSIGN(statement.prefixes, read_condition(*condition, inner + "Condition"));
  }
  return statement;
}

json::array to_json(const std::vector<std::string>& texts) {
  json::array list;
  for (const std::string& text : texts) list.emplace_back(text);
  return list;
}

}  // namespace

Result<RolePolicy> parse_role_policy(const json::object& document) {
  if (json::serialize(document).size() > kMaxRolePolicy)
    return fail(Code::invalid, "a role's policy has at most 10240 bytes");
  FB_TRY(check_object(document, role_policy_fields()));
  if (const json::value* version = document.if_contains("Version");
      version != nullptr && *version != json::value(kVersion))
    return wrong("Version", "must be \"2012-10-17\", or left out");
  const json::value& statements = document.at("Statement");
  json::array list;
  if (statements.is_object()) {
    list.push_back(statements);
  } else {
    list = statements.as_array();
  }
  if (list.size() > kMaxRoleStatements)
    return fail(Code::invalid, "a role's policy has at most 50 statements");
  RolePolicy policy;
  for (std::size_t i = 0; i < list.size(); ++i) {
    FB_TRY_ASSIGN(RoleStatement statement,
                  read_statement(list[i], "Statement[" + std::to_string(i) + "]"));
    policy.statements.push_back(std::move(statement));
  }
  return policy;
}

json::object to_json(const RolePolicy& policy) {
  json::array statements;
  for (const RoleStatement& statement : policy.statements) {
    json::object out;
    if (!statement.sid.empty()) out["Sid"] = statement.sid;
    out["Effect"] = statement.allow ? "Allow" : "Deny";
    out["Action"] = to_json(statement.actions);
    out["Resource"] = to_json(statement.resources);
    if (!statement.prefixes.empty())
      out["Condition"] = {{"StringLike", {{kPrefixKey, to_json(statement.prefixes)}}}};
    statements.push_back(std::move(out));
  }
  return {{"Version", kVersion}, {"Statement", std::move(statements)}};
}

}  // namespace firebreak::core
