// egress: policies, and what a microVM was allowed and denied.
#include <memory>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kPolicyAbout =
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

struct LogOptions {
  std::string id;
  std::uint64_t limit = 100;
  bool suggest = false;
};

net::Task<Result<>> show_log(Client& client, const LogOptions& options, bool as_json) {
  FB_CO_TRY_ASSIGN(
      const json::object answer,
      co_await client.call(
          "GET", microvm_path(options.id, "/egress?limit=" + std::to_string(options.limit) +
                                              (options.suggest ? "&suggest=1" : ""))));
  if (as_json || options.suggest) {
    print_json(options.suggest && !as_json ? answer.at("suggestion") : json::value(answer));
    co_return Result<>();
  }
  print_decisions(answer.at("decisions").as_array());
  co_return Result<>();
}

// `egress ID` itself: chosen when no subcommand is.
void add_log(Command& egress, Common& common) {
  auto options = std::make_shared<LogOptions>();
  egress.word("ID", options->id, "MicroVM whose connections are printed")
      .kind(ValueKind::microvm)
      .required("name a microVM, or one of the commands ls, show, set, rm, use and tenant");
  egress.option("-n,--limit", options->limit, "N", "How many of the latest").range(1, 10000);
  egress.flag("--suggest", options->suggest,
              "Print the smallest policy that would have sufficed, as JSON");
  add_json_flag(egress, common);
  run_with_client(egress, common, [options, &common](Client& client, int&) {
    return show_log(client, *options, common.json);
  });
}

net::Task<Result<>> list_policies(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/egress-policies"));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "RULES"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& policy = item.as_object();
    const json::value* rules = policy.if_contains("rules");
    table.add(
        {text_of(policy, "name"),
         std::to_string(rules != nullptr && rules->is_array() ? rules->as_array().size() : 0)});
  }
  table.print();
  co_return Result<>();
}

void add_policies(Command& egress, Common& common) {
  Command& ls = egress.add("ls", "List the policies that can be used").also({"list"});
  add_json_flag(ls, common);
  ls.example("firebreak egress ls", "a table");
  ls.example("firebreak egress ls --json", "with their rules");
  run_with_client(ls, common,
                  [&common](Client& client, int&) { return list_policies(client, common.json); });
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  const auto add_name = [name](Command& command) {
    command.word("NAME", *name, "Name of a policy").kind(ValueKind::policy).required();
  };
  Command& show = egress.add("show", "Print a policy as JSON");
  add_name(show);
  show.example("firebreak egress show NO_EGRESS", "a policy that is built in");
  show.example("firebreak egress show mine >mine.json", "to edit it");
  run_with_client(show, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object policy, co_await client.call("GET", policy_path(*name)));
    print_json(policy);
    co_return Result<>();
  });
  Command& set = egress.add("set", "Make or replace a policy").also({"add", "create"});
  add_name(set);
  set.word("FILE", *file, "JSON; - reads standard input").kind(ValueKind::file).required();
  set.about(kPolicyAbout);
  set.example("firebreak egress set mine mine.json", "");
  set.example("firebreak egress ID --suggest | firebreak egress set mine -",
              "what a microVM needed so far");
  run_with_client(set, common, [=](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const std::string text, read_input(*file));
    auto body = parse_json_object(text);
    if (!body) co_return fail(body.error(), *file);
    FB_CO_TRY(co_await client.call("PUT", policy_path(*name), *std::move(body)));
    co_return Result<>();
  });
  Command& rm = egress.add("rm", "Remove a policy that no microVM has");
  rm.also({"delete", "remove"});
  add_name(rm);
  rm.example("firebreak egress rm mine", "");
  rm.example("firebreak egress ls", "those that are left");
  run_with_client(rm, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", policy_path(*name)));
    co_return Result<>();
  });
}

void add_use(Command& egress, Common& common) {
  auto id = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  Command& use = egress.add("use", "Give a microVM another policy, at once");
  use.about("Connections that the new policy does not allow are cut.");
  add_microvm_word(use, *id);
  use.word("NAME", *name, "Name of a policy").kind(ValueKind::policy).required();
  use.example("firebreak egress use ID NO_EGRESS", "take its network away");
  use.example("firebreak egress use ID mine", "");
  run_with_client(use, common, [=](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("PATCH", microvm_path(*id), json::object{{"egress", *name}}));
    co_return Result<>();
  });
}

struct TenantOptions {
  std::string tenant;
  std::string fallback;
  std::string maximum;
};

void add_tenant(Command& egress, Common& common) {
  auto options = std::make_shared<TenantOptions>();
  Command& limit = egress.add(
      "tenant", "Set a tenant's default and maximum policy (needs an administrator's key)");
  limit.word("ACCOUNT", options->tenant, "The tenant's account id ('firebreak tenant ls')")
      .required();
  limit.option("--default", options->fallback, "NAME", "Policy of runs that ask for none")
      .kind(ValueKind::policy);
  limit.option("--maximum", options->maximum, "NAME", "No run gets more than this policy")
      .kind(ValueKind::policy);
  limit.example("firebreak egress tenant 123456789012 --default NO_EGRESS", "");
  limit.example("firebreak egress tenant 123456789012 --maximum INTERNET_EGRESS", "");
  limit.check([options]() -> Result<> {
    if (!options->fallback.empty() || !options->maximum.empty()) return {};
    return fail(Code::invalid, "nothing to set",
                Repair{"give --default NAME, --maximum NAME, or both"});
  });
  run_with_client(limit, common, [options](Client& client, int&) -> net::Task<Result<>> {
    json::object body;
    if (!options->fallback.empty()) body["default"] = options->fallback;
    if (!options->maximum.empty()) body["maximum"] = options->maximum;
    FB_CO_TRY_ASSIGN(
        const json::object set,
        co_await client.call(
            "PUT", "/v1/tenants/" + percent_encode(options->tenant, "") + "/egress", body));
    print_json(set);
    co_return Result<>();
  });
}

}  // namespace

void add_egress_commands(Command& root, Common& common) {
  Command& egress =
      root.add("egress", "Show what a microVM tried to reach; manage egress policies");
  egress.group(kRulesGroup);
  egress.example("firebreak egress ID", "what it was allowed and denied");
  egress.example("firebreak egress ID --suggest", "the smallest policy that would have sufficed");
  add_policies(egress, common);
  add_use(egress, common);
  add_tenant(egress, common);
  add_log(egress, common);
}

}  // namespace firebreak::cli
