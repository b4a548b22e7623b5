// egress: policies, and what a microVM was allowed and denied.
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kPolicyFooter =
    R"(A policy is JSON. Rules have no order: a deny that matches beats every allow, and what no rule
allows is denied. Names are resolved by the host; only the addresses it gave can be reached.
  {"rules": [{"action": "allow", "domain": "*.debian.org", "ports": [80, 443]},
             {"action": "allow", "cidr": "192.0.2.0/24", "protocol": "tcp", "ports": ["8000-8100"]},
             {"action": "deny", "domain": "ads.example.com"}],
   "sniCheck": true, "maxBytes": 100000000, "maxConnections": 50}
With sniCheck, TLS on port 443 must ask for a name that may be reached.)";

std::string policy_path(const std::string& name) {
  return "/v1/egress-policies/" + percent_encode(name, "");
}

// Where a packet went; what a name was resolved to.
std::string destination(const json::object& decision) {
  const json::value* addresses = decision.if_contains("addresses");
  if (addresses == nullptr || !addresses->is_array()) return text_of(decision, "address");
  std::string out;
  for (const json::value& address : addresses->as_array())
    out += (out.empty() ? "" : ",") + std::string(address.as_string());
  return out;
}

void print_decisions(const json::array& decisions) {
  TextTable table(
      {"WHEN", "EVENT", "VERDICT", "PROTOCOL", "TO", "PORT", "NAME", "TIMES", "RULE", "REASON"});
  for (const json::value& item : decisions) {
    const json::object& decision = item.as_object();
    const bool many = decision.contains("count");
    table.add({age_of(decision, "time"), text_of(decision, "event"), text_of(decision, "verdict"),
               text_of(decision, "protocol"), destination(decision), text_of(decision, "port"),
               text_of(decision, "name"), many ? text_of(decision, "count") : "1",
               text_of(decision, "rule"), text_of(decision, "reason")});
  }
  table.print();
}

// `egress ID` itself: chosen when no subcommand is.
void add_log(CLI::App* egress, Common& common, std::vector<Command>& commands) {
  auto id = std::make_shared<std::string>();
  auto limit = std::make_shared<std::uint64_t>(100);
  auto suggest = std::make_shared<bool>(false);
  egress->add_option("ID", *id, "Print what this microVM was allowed and denied");
  egress->add_option("-n,--limit", *limit, "How many of the latest")->capture_default_str();
  egress->add_flag("--suggest", *suggest, "Print the smallest policy that would have sufficed");
  egress->add_flag("--json", common.json, "Print JSON");
  commands.push_back(
      {egress, [=, &common] {
         if (id->empty()) {
           std::cerr << egress->help("firebreak");
           return 2;
         }
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           FB_CO_TRY_ASSIGN(const json::object answer,
                            co_await client.call(
                                "GET", microvm_path(*id, "/egress?limit=" + std::to_string(*limit) +
                                                             (*suggest ? "&suggest=1" : ""))));
           if (common.json || *suggest) {
             print_json(*suggest && !common.json ? answer.at("suggestion") : json::value(answer));
             co_return Result<>();
           }
           print_decisions(answer.at("decisions").as_array());
           co_return Result<>();
         });
       }});
}

void add_policies(CLI::App* egress, Common& common, std::vector<Command>& commands) {
  CLI::App* ls = egress->add_subcommand("ls", "List the policies that can be used");
  ls->add_flag("--json", common.json, "Print JSON");
  commands.push_back(
      {ls, [&common] {
         return with_client(common, [&common](Client& client, int&) -> net::Task<Result<>> {
           FB_CO_TRY_ASSIGN(const json::object answer,
                            co_await client.call("GET", "/v1/egress-policies"));
           if (common.json) {
             print_json(answer.at("items"));
             co_return Result<>();
           }
           TextTable table({"NAME", "RULES"});
           for (const json::value& item : answer.at("items").as_array()) {
             const json::object& policy = item.as_object();
             const json::value* rules = policy.if_contains("rules");
             table.add({text_of(policy, "name"),
                        std::to_string(
                            rules != nullptr && rules->is_array() ? rules->as_array().size() : 0)});
           }
           table.print();
           co_return Result<>();
         });
       }});
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  CLI::App* show = egress->add_subcommand("show", "Print a policy as JSON");
  show->add_option("NAME", *name)->required();
  commands.push_back({show, [=, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY_ASSIGN(const json::object policy,
                                               co_await client.call("GET", policy_path(*name)));
                              print_json(policy);
                              co_return Result<>();
                            });
                      }});
  CLI::App* set = egress->add_subcommand("set", "Make or replace a policy");
  set->add_option("NAME", *name)->required();
  set->add_option("FILE", *file, "JSON; - reads standard input")->required();
  set->footer(kPolicyFooter);
  commands.push_back(
      {set, [=, &common] {
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           std::ifstream opened;
           if (*file != "-") opened.open(*file);
           std::istream& in = *file == "-" ? std::cin : opened;
           if (!in) co_return fail(Code::invalid, "cannot read " + *file);
           const std::string text{std::istreambuf_iterator<char>(in),
                                  std::istreambuf_iterator<char>()};
           auto body = parse_json_object(text);
           if (!body) co_return fail(body.error(), *file);
           FB_CO_TRY(co_await client.call("PUT", policy_path(*name), *std::move(body)));
           co_return Result<>();
         });
       }});
  CLI::App* rm = egress->add_subcommand("rm", "Remove a policy that no microVM has");
  rm->add_option("NAME", *name)->required();
  commands.push_back({rm, [=, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY(co_await client.call("DELETE", policy_path(*name)));
                              co_return Result<>();
                            });
                      }});
}

void add_use(CLI::App* egress, Common& common, std::vector<Command>& commands) {
  auto id = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  CLI::App* use = egress->add_subcommand(
      "use", "Give a microVM another policy, at once; connections it does not allow are cut");
  use->add_option("ID", *id)->required();
  use->add_option("NAME", *name)->required();
  commands.push_back({use, [=, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY(co_await client.call("PATCH", microvm_path(*id),
                                                             json::object{{"egress", *name}}));
                              co_return Result<>();
                            });
                      }});
  auto tenant = std::make_shared<std::string>();
  auto fallback = std::make_shared<std::string>();
  auto maximum = std::make_shared<std::string>();
  CLI::App* limit = egress->add_subcommand(
      "tenant", "Set a tenant's default and maximum policy (needs an administrator's key)");
  limit->add_option("ACCOUNT", *tenant)->required();
  limit->add_option("--default", *fallback, "Of runs that ask for none");
  limit->add_option("--maximum", *maximum, "No run gets more");
  commands.push_back(
      {limit, [=, &common] {
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           json::object body;
           if (!fallback->empty()) body["default"] = *fallback;
           if (!maximum->empty()) body["maximum"] = *maximum;
           FB_CO_TRY_ASSIGN(
               const json::object set,
               co_await client.call("PUT", "/v1/tenants/" + percent_encode(*tenant, "") + "/egress",
                                    body));
           print_json(set);
           co_return Result<>();
         });
       }});
}

}  // namespace

void add_egress_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* egress = app.add_subcommand(
      "egress", "What a microVM tried to reach; policies of what microVMs may reach");
  egress->require_subcommand(0, 1);
  add_policies(egress, common, commands);
  add_use(egress, common, commands);
  add_log(egress, common, commands);
}

}  // namespace firebreak::cli
