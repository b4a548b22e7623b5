// template, policy: what sessions are made of, and who may have them.
#include <memory>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

// A word is a number, true or false, null, or itself.
json::value value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text == "none" || text == "null") return nullptr;
  if (const auto number = parse_u64(text)) return *number;
  return json::string(text);
}

json::object values_of(const std::vector<std::string>& pairs) {
  json::object body;
  for (const std::string& pair : pairs) {
    const auto at = pair.find('=');
    const std::string name = pair.substr(0, at);
    body[name] = value_of(pair.substr(at + 1));
    if (name != "languages") continue;
    json::array languages;
    for (const std::string_view each : split(std::string_view(pair).substr(at + 1), ','))
      languages.emplace_back(each);
    body[name] = std::move(languages);
  }
  return body;
}

std::string template_path(const std::string& name) {
  return "/v1/templates/" + percent_encode(name, "");
}

net::Task<Result<>> list_templates(const Common& common, Client& client) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/templates"));
  if (common.json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "IMAGE", "ENVIRONMENT", "CALL S", "IDLE S", "SESSION S"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& each = item.as_object();
    table.add({text_of(each, "name"), text_of(each, "image"), text_of(each, "environment"),
               text_of(each, "callSeconds"), text_of(each, "idleSeconds"),
               text_of(each, "sessionSeconds")});
  }
  table.print();
  co_return Result<>();
}

// What is not named stays as it is, or is as usual in a new one.
net::Task<Result<>> set_template(Client& client, std::string name, json::object body) {
  auto changed = co_await client.call("PATCH", template_path(name), body);
  if (!changed && changed.error().code == Code::not_found) {
    body["name"] = name;
    changed = co_await client.call("POST", "/v1/templates", body);
  }
  if (!changed) co_return std::unexpected(changed.error());
  print_json(*changed);
  co_return Result<>();
}

void add_template(Command& root, Common& common) {
  Command& commands = root.add("template", "Manage templates of sessions").group(kRulesGroup);
  commands.example("firebreak template set analysis environment=internal-only", "");
  commands.example("firebreak template ls", "");
  auto name = std::make_shared<std::string>();
  auto pairs = std::make_shared<std::vector<std::string>>();
  Command& set = commands.add("set", "Make or change a template; prints it").also({"add"});
  set.about(
      "Names: image, environment (default-public, internal-only or an egress policy), languages\n"
      "(python,bash,node), callSeconds, sessionSeconds, idleSeconds, calls, stdoutBytes,\n"
      "stderrBytes, cpuSeconds, role. What is not named stays.");
  set.word("NAME", *name, "The template's name; \"default\" is taken when a call names none")
      .required();
  set.word("NAME=VALUE", *pairs, "What it has").pair();
  set.example("firebreak template set analysis image=pandas environment=internal-only", "");
  set.example("firebreak template set default callSeconds=30", "for calls that name none");
  run_with_client(set, common, [name, pairs](Client& client, int&) {
    return set_template(client, *name, values_of(*pairs));
  });
  Command& ls = commands.add("ls", "List templates").also({"list"});
  add_json_flag(ls, common);
  ls.example("firebreak template ls", "a table");
  ls.example("firebreak template ls --json", "all of each");
  run_with_client(ls, common,
                  [&common](Client& client, int&) { return list_templates(common, client); });
  Command& rm = commands.add("rm", "Remove a template; its sessions go on");
  rm.also({"delete", "remove"});
  rm.word("NAME", *name, "The template's name").required();
  rm.example("firebreak template rm analysis", "");
  rm.example("firebreak template ls", "those that are left");
  run_with_client(rm, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", template_path(*name)));
    co_return Result<>();
  });
}

net::Task<Result<>> set_policy(Client& client, std::string account, json::object body) {
  if (account.empty()) {
    FB_CO_TRY_ASSIGN(const json::object own, co_await client.call("GET", "/v1/tenant"));
    account = text_of(own, "accountId");
  }
  FB_CO_TRY_ASSIGN(const json::object set,
                   co_await client.call(
                       "PATCH", "/v1/tenants/" + percent_encode(account, "") + "/policy", body));
  print_json(set);
  co_return Result<>();
}

void add_policy(Command& root, Common& common) {
  Command& policy = root.add("policy", "Show and set whether and how agents may run code");
  policy.group(kAdminGroup);
  policy.example("firebreak policy show", "your own");
  policy.example("firebreak policy set enabled=false", "no agent runs code from now on");
  Command& show = policy.add("show", "Print your tenant's sandbox policy, as JSON");
  show.example("firebreak policy show", "");
  show.example("firebreak policy show | jq .enabled", "one of its members");
  run_with_client(show, common, [](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/policy"));
    print_json(answer);
    co_return Result<>();
  });
  auto account = std::make_shared<std::string>();
  auto pairs = std::make_shared<std::vector<std::string>>();
  Command& set = policy.add("set", "Change a tenant's policy (needs an administrator's key)");
  set.about("Names: enabled, tier (standard, regulated), retentionDays (1 to 180), keepOutput.");
  set.word("NAME=VALUE", *pairs, "What changes; what is not named stays").pair().required();
  set.option("--tenant", *account, "ACCOUNT", "The tenant's account id").fallback("your own");
  set.example("firebreak policy set enabled=false", "");
  set.example("firebreak policy set --tenant 123456789012 tier=regulated", "");
  run_with_client(set, common, [account, pairs](Client& client, int&) {
    return set_policy(client, *account, values_of(*pairs));
  });
}

}  // namespace

void add_template_commands(Command& root, Common& common) {
  add_template(root, common);
  add_policy(root, common);
}

}  // namespace firebreak::cli
