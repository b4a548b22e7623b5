// role: what credentials of microVMs may do.
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kPolicyFooter =
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
  std::ifstream opened;
  if (file != "-") opened.open(file);
  std::istream& in = file == "-" ? std::cin : opened;
  if (!in) co_return fail(Code::invalid, "cannot read " + file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto policy = parse_json_object(text);
  if (!policy) co_return fail(policy.error(), file);
  FB_CO_TRY(co_await client.call("PUT", role_path(name), json::object{{"policy", *policy}}));
  co_return Result<>();
}

}  // namespace

void add_role_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* role = app.add_subcommand("role", "Roles: what credentials of microVMs may do");
  role->require_subcommand(1);
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  CLI::App* ls = role->add_subcommand("ls", "List roles");
  ls->add_flag("--json", common.json, "Print JSON");
  commands.push_back({ls, [&common] {
                        return with_client(common, [&common](Client& client, int&) {
                          return list_roles(common, client);
                        });
                      }});
  CLI::App* show = role->add_subcommand("show", "Print a role as JSON");
  show->add_option("NAME", *name)->required();
  commands.push_back({show, [=, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY_ASSIGN(const json::object shown,
                                               co_await client.call("GET", role_path(*name)));
                              print_json(shown);
                              co_return Result<>();
                            });
                      }});
  CLI::App* set = role->add_subcommand("set", "Make or replace a role");
  set->add_option("NAME", *name)->required();
  set->add_option("FILE", *file, "Policy as JSON; - reads standard input")->required();
  set->footer(kPolicyFooter);
  commands.push_back({set, [=, &common] {
                        return with_client(common, [&](Client& client, int&) {
                          return set_role(client, *name, *file);
                        });
                      }});
  CLI::App* rm = role->add_subcommand("rm", "Remove a role; credentials that are out end");
  rm->add_option("NAME", *name)->required();
  commands.push_back({rm, [=, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY(co_await client.call("DELETE", role_path(*name)));
                              co_return Result<>();
                            });
                      }});
}

}  // namespace firebreak::cli
