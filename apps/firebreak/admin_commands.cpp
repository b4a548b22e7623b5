// usage, events, tenant, key, quota.
#include <memory>

#include "base/text.h"
#include "base/words.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

void add_usage(Command& root, Common& common) {
  Command& usage = root.add("usage", "Print what your microVMs used").group(kAdminGroup);
  usage.about(
      "CPU, memory and network of each microVM; of those that ended long ago the sum of each day.");
  add_json_flag(usage, common);
  usage.example("firebreak usage", "a table, the total last");
  usage.example("firebreak usage --json | jq .total", "the sum for programs");
  run_with_client(usage, common, [&common](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/usage"));
    if (common.json) {
      print_json(answer);
      co_return Result<>();
    }
    TextTable table({"MICROVM", "RUNNING S", "CPU S", "ABOVE BASELINE S", "MEMORY GB S",
                     "SUSPENDED GB H", "IN", "OUT"});
    const auto row = [&table](const std::string& name, const json::object& used) {
      table.add({name, text_of(used, "runningSeconds"), text_of(used, "cpuSeconds"),
                 text_of(used, "cpuSecondsAboveBaseline"), text_of(used, "memoryGbSeconds"),
                 text_of(used, "suspendedGbHours"), text_of(used, "bytesIn"),
                 text_of(used, "bytesOut")});
    };
    for (const json::value& item : answer.at("items").as_array())
      row(text_of(item.as_object(), "microvm"), item.as_object());
    for (const json::value& item : answer.at("days").as_array()) {
      const json::object& day = item.as_object();
      row(text_of(day, "day") + " (" + text_of(day, "microvms") + ")", day);
    }
    row("total", answer.at("total").as_object());
    table.print();
    co_return Result<>();
  });
}

void add_events(Command& root, Common& common) {
  Command& events = root.add("events", "Print state changes as they happen, as JSON lines");
  events.group(kAdminGroup).about("From now on, one JSON object a line, until Ctrl-C.");
  events.example("firebreak events", "");
  events.example("firebreak events | jq -r '.microvm + \" \" + .to'", "who went where");
  run_with_client(events, common, [](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(auto stream, co_await client.start("GET", "/v1/events", false));
    FB_CO_TRY(co_await Client::check(*stream));
    std::string held;
    for (;;) {
      FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
      if (bytes.empty()) co_return Result<>();
      held += bytes;
      for (std::size_t end = held.find('\n'); end != std::string::npos; end = held.find('\n')) {
        if (held.starts_with("data: ")) print_json_text(std::string_view(held).substr(6, end - 6));
        held.erase(0, end + 1);
      }
    }
  });
}

void add_tenant(Command& root, Common& common) {
  Command& tenant = root.add("tenant", "Manage tenants (needs an administrator's key)");
  tenant.group(kAdminGroup);
  tenant.example("firebreak tenant add research", "its first key is printed once");
  tenant.example("firebreak tenant ls", "");
  Command& ls = tenant.add("ls", "List tenants").also({"list"});
  add_json_flag(ls, common);
  ls.example("firebreak tenant ls", "a table");
  ls.example("firebreak tenant ls --json", "the same for programs");
  run_with_client(ls, common, [&common](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/tenants"));
    if (common.json) {
      print_json(answer.at("items"));
      co_return Result<>();
    }
    TextTable table({"ACCOUNT", "NAME", "CREATED"});
    for (const json::value& item : answer.at("items").as_array())
      table.add({text_of(item.as_object(), "accountId"), text_of(item.as_object(), "name"),
                 age_of(item.as_object(), "createdAt")});
    table.print();
    co_return Result<>();
  });
  auto name = std::make_shared<std::string>();
  Command& add = tenant.add("add", "Make a tenant; prints it with its first key, as JSON");
  add.also({"create"});
  add.word("NAME", *name, "What people call it").required();
  add.example("firebreak tenant add research", "");
  add.example("firebreak tenant add research | jq -r .key.apiKey", "the key alone");
  run_with_client(add, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object made,
                     co_await client.call("POST", "/v1/tenants", json::object{{"name", *name}}));
    print_json(made);
    co_return Result<>();
  });
  Command& rm = tenant.add("rm", "Remove a tenant that has no live microVMs");
  rm.also({"delete", "remove"});
  rm.word("ACCOUNT", *name, "Its account id ('firebreak tenant ls')").required();
  rm.example("firebreak tenant rm 123456789012", "");
  rm.example("firebreak tenant ls", "shows the account ids");
  run_with_client(rm, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", "/v1/tenants/" + percent_encode(*name, "")));
    co_return Result<>();
  });
}

std::string keys_path(const std::string& key, const std::string& tenant) {
  std::string path = "/v1/keys";
  if (!key.empty()) path += "/" + percent_encode(key, "");
  if (!tenant.empty()) path += "?tenant=" + percent_encode(tenant, "");
  return path;
}

net::Task<Result<>> list_keys(Client& client, const std::string& tenant, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", keys_path("", tenant)));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"ACCESS KEY", "NAME", "KIND", "AGENT", "CREATED", "REVOKED"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& entry = item.as_object();
    table.add({text_of(entry, "accessKeyId"), text_of(entry, "name"), text_of(entry, "kind"),
               text_of(entry, "agentId"), age_of(entry, "createdAt"), age_of(entry, "revokedAt")});
  }
  table.print();
  co_return Result<>();
}

void add_key(Command& root, Common& common) {
  Command& key = root.add("key", "Manage keys of your tenant").group(kAdminGroup);
  key.example("firebreak key add laptop", "prints the secrets once");
  key.example("firebreak key ls", "");
  auto tenant = std::make_shared<std::string>();
  const auto of_other = [tenant](Command& command) {
    command.option("--tenant", *tenant, "ACCOUNT",
                   "Of another tenant (needs an administrator's key)");
  };
  Command& ls = key.add("ls", "List keys").also({"list"});
  of_other(ls);
  add_json_flag(ls, common);
  ls.example("firebreak key ls", "your own tenant's");
  ls.example("firebreak key ls --tenant 123456789012", "another's");
  run_with_client(ls, common, [&common, tenant](Client& client, int&) {
    return list_keys(client, *tenant, common.json);
  });
  auto name = std::make_shared<std::string>();
  auto admin = std::make_shared<bool>(false);
  auto kind = std::make_shared<std::string>();
  auto agent = std::make_shared<std::string>();
  Command& add = key.add("add", "Make a key; prints its secrets once, as JSON");
  add.also({"create"});
  add.word("NAME", *name, "What people call it");
  add.flag("--admin", *admin, "It may manage tenants and limits");
  add.option("--kind", *kind, "KIND", "What it is for")
      .one_of({"owner", "agent", "approver", "auditor", "administrator"});
  add.option("--agent", *agent, "AGENT", "Of an agent's key: the agent that it runs code for");
  of_other(add);
  add.example("firebreak key add laptop", "");
  add.example("firebreak key add laptop | jq -r .apiKey", "for 'firebreak login'");
  const auto make = [=](Client& client, int&) -> net::Task<Result<>> {
    json::object body{{"name", *name}, {"admin", *admin}};
    if (!kind->empty()) body["kind"] = *kind;
    if (!agent->empty()) body["agentId"] = *agent;
    if (!tenant->empty()) body["tenant"] = *tenant;
    FB_CO_TRY_ASSIGN(const json::object made, co_await client.call("POST", "/v1/keys", body));
    print_json(made);
    co_return Result<>();
  };
  run_with_client(add, common, make);
  Command& rm = key.add("rm", "Revoke a key, at once").also({"delete", "remove", "revoke"});
  rm.word("KEY", *name, "Its access key id ('firebreak key ls')").required();
  of_other(rm);
  rm.example("firebreak key rm AKIA0123456789ABCDEF", "");
  rm.example("firebreak key ls", "shows the access key ids");
  run_with_client(rm, common, [name, tenant](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", keys_path(*name, *tenant)));
    co_return Result<>();
  });
}

struct QuotaOptions {
  std::vector<std::string> words;  // an account perhaps, then limits
  std::string tenant() const {
    return !words.empty() && words.front().find('=') == std::string::npos ? words.front() : "";
  }
};

Result<json::object> quota_body(const QuotaOptions& options) {
  json::object body;
  for (const std::string& entry : options.words) {
    if (entry == options.tenant()) continue;
    const auto pair = split_pair(entry);
    const auto value = pair ? parse_u64(pair->value) : std::nullopt;
    if (!value && !(pair && pair->value == "none"))
      return fail(Code::invalid, "'" + entry + "' is not LIMIT=NUMBER",
                  Repair{"write microvms=10"});
    body[pair->name] = value ? json::value(*value) : json::value(nullptr);
  }
  if (body.empty()) return fail(Code::invalid, "no limit is named", Repair{"write microvms=10"});
  return body;
}

void add_quota(Command& root, Common& common) {
  Command& quota = root.add("quota", "Show and set limits of tenants").group(kAdminGroup);
  quota.example("firebreak quota show", "your own");
  quota.example("firebreak quota set 123456789012 microvms=10", "administrators only");
  Command& show = quota.add("show", "Print your own limits, as JSON");
  show.example("firebreak quota show", "");
  show.example("firebreak quota show | jq .microvms", "one of them");
  run_with_client(show, common, [](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/tenant"));
    print_json(answer.at("limits"));
    co_return Result<>();
  });
  auto options = std::make_shared<QuotaOptions>();
  Command& set = quota.add("set", "Set limits of a tenant (needs an administrator's key)");
  set.about(
      "Limits: microvms, memoryMib, images, versionsPerImage, launchesPerSecond. Caps, which "
      "count\n"
      "hours and days of UTC: tenant_daily, agent_hourly, launches_daily, wakes_hourly,\n"
      "execs_daily, builds_daily; 0 stops all, none takes the cap away. What is not named stays.");
  set.word("[ACCOUNT] LIMIT=N", options->words,
           "The tenant's account id ('firebreak tenant ls'), without it your own; then limits")
      .required();
  set.example("firebreak quota set 123456789012 microvms=10 memoryMib=4096", "");
  set.example("firebreak quota set tenant_daily=0", "of your own tenant: no agent runs code");
  set.check([options]() -> Result<> {
    FB_TRY(quota_body(*options));
    return {};
  });
  run_with_client(set, common, [options](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object body, quota_body(*options));
    std::string account = options->tenant();
    if (account.empty()) {
      FB_CO_TRY_ASSIGN(const json::object own, co_await client.call("GET", "/v1/tenant"));
      account = text_of(own, "accountId");
    }
    FB_CO_TRY_ASSIGN(const json::object answer,
                     co_await client.call(
                         "PUT", "/v1/tenants/" + percent_encode(account, "") + "/limits", body));
    print_json(answer.at("limits"));
    co_return Result<>();
  });
}

}  // namespace

void add_admin_commands(Command& root, Common& common) {
  add_usage(root, common);
  add_events(root, common);
  add_tenant(root, common);
  add_key(root, common);
  add_quota(root, common);
}

}  // namespace firebreak::cli
