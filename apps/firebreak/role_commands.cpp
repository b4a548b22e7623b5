// role: what credentials of microVMs may do.
#include <memory>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kPolicyAbout =
    R"(A policy is an IAM policy document. What nothing allows is denied; a Deny beats every Allow.
  {"Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
                  "Resource": "arn:aws:s3:::my-bucket/mine/*"},
                 {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::my-bucket",
                  "Condition": {"StringLike": {"s3:prefix": "mine/*"}}}]})";

std::string role_path(const std::string& name) {
  return "/v1/roles/" + percent_encode(name, "");
}

net::Task<Result<>> list_roles(const Common& common, Client& client) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/roles"));
  if (common.json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "ARN", "CREATED"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& role = item.as_object();
    table.add({text_of(role, "name"), text_of(role, "arn"), age_of(role, "createdAt")});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> set_role(Client& client, std::string name, std::string file) {
  FB_CO_TRY_ASSIGN(const std::string text, read_input(file));
  auto policy = parse_json_object(text);
  if (!policy) co_return fail(policy.error(), file);
  FB_CO_TRY(co_await client.call("PUT", role_path(name), json::object{{"policy", *policy}}));
  co_return Result<>();
}

}  // namespace

void add_role_commands(Command& root, Common& common) {
  Command& role = root.add("role", "Manage roles: what credentials of microVMs may do");
  role.group(kRulesGroup);
  role.example("firebreak role set reader policy.json", "make or replace a role");
  role.example("firebreak run python --role reader", "its programs find the credentials");
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  const auto add_name = [name](Command& command) -> Option& {
    return command.word("NAME", *name, "Name of a role").kind(ValueKind::role).required();
  };
  Command& ls = role.add("ls", "List roles").also({"list"});
  add_json_flag(ls, common);
  ls.example("firebreak role ls", "a table");
  ls.example("firebreak role ls --json", "the same for programs");
  run_with_client(ls, common,
                  [&common](Client& client, int&) { return list_roles(common, client); });
  Command& show = role.add("show", "Print a role as JSON");
  add_name(show);
  show.example("firebreak role show reader", "");
  show.example("firebreak role show reader | jq .policy", "its policy alone");
  run_with_client(show, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object shown, co_await client.call("GET", role_path(*name)));
    print_json(shown);
    co_return Result<>();
  });
  Command& set = role.add("set", "Make or replace a role").also({"add", "create"});
  add_name(set);
  set.word("FILE", *file, "Policy as JSON; - reads standard input")
      .kind(ValueKind::file)
      .required();
  set.about(kPolicyAbout);
  set.example("firebreak role set reader policy.json", "");
  set.example("firebreak role set reader - <policy.json", "from standard input");
  run_with_client(set, common,
                  [=](Client& client, int&) { return set_role(client, *name, *file); });
  Command& rm = role.add("rm", "Remove a role; credentials that are out end");
  rm.also({"delete", "remove"});
  add_name(rm);
  rm.example("firebreak role rm reader", "");
  rm.example("firebreak role ls", "those that are left");
  run_with_client(rm, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", role_path(*name)));
    co_return Result<>();
  });
}

}  // namespace firebreak::cli
