// usage, events, tenant, key, quota.
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

using Body = std::function<net::Task<Result<>>(Client&, int&)>;

void add_call(CLI::App* command, Common& common, std::vector<Command>& commands, Body body) {
  commands.push_back(
      {command, [&common, body = std::move(body)] { return with_client(common, body); }});
}

void add_usage(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* usage = app.add_subcommand("usage", "What your microVMs used");
  usage->add_flag("--json", common.json, "Print JSON");
  add_call(usage, common, commands, [&common](Client& client, int&) -> net::Task<Result<>> {
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

void add_events(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* events = app.add_subcommand("events", "State changes as they happen, as JSON lines");
  add_call(events, common, commands, [](Client& client, int&) -> net::Task<Result<>> {
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

void add_tenant(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* tenant = app.add_subcommand("tenant", "Tenants (needs an administrator's key)");
  tenant->require_subcommand(1);
  CLI::App* ls = tenant->add_subcommand("ls", "List tenants");
  ls->add_flag("--json", common.json, "Print JSON");
  add_call(ls, common, commands, [&common](Client& client, int&) -> net::Task<Result<>> {
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
  CLI::App* add =
      tenant->add_subcommand("add", "Make a tenant; prints it with its first key, as JSON");
  add->add_option("NAME", *name)->required();
  add_call(add, common, commands, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object made,
                     co_await client.call("POST", "/v1/tenants", json::object{{"name", *name}}));
    print_json(made);
    co_return Result<>();
  });
  CLI::App* rm = tenant->add_subcommand("rm", "Remove a tenant that has no live microVMs");
  rm->add_option("ACCOUNT", *name)->required();
  add_call(rm, common, commands, [name](Client& client, int&) -> net::Task<Result<>> {
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

void add_key(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* key = app.add_subcommand("key", "Keys of your tenant");
  key->require_subcommand(1);
  auto tenant = std::make_shared<std::string>();
  const char* of_other = "Account of another tenant (needs an administrator's key)";
  CLI::App* ls = key->add_subcommand("ls", "List keys");
  ls->add_option("--tenant", *tenant, of_other);
  ls->add_flag("--json", common.json, "Print JSON");
  add_call(ls, common, commands, [&common, tenant](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer,
                     co_await client.call("GET", keys_path("", *tenant)));
    if (common.json) {
      print_json(answer.at("items"));
      co_return Result<>();
    }
    TextTable table({"ACCESS KEY", "NAME", "ADMIN", "CREATED", "REVOKED"});
    for (const json::value& item : answer.at("items").as_array()) {
      const json::object& entry = item.as_object();
      table.add({text_of(entry, "accessKeyId"), text_of(entry, "name"), text_of(entry, "admin"),
                 age_of(entry, "createdAt"), age_of(entry, "revokedAt")});
    }
    table.print();
    co_return Result<>();
  });
  auto name = std::make_shared<std::string>();
  auto admin = std::make_shared<bool>(false);
  CLI::App* add = key->add_subcommand("add", "Make a key; prints its secrets once, as JSON");
  add->add_option("NAME", *name);
  add->add_flag("--admin", *admin, "It may manage tenants and limits");
  add->add_option("--tenant", *tenant, of_other);
  const auto make = [name, admin, tenant](Client& client, int&) -> net::Task<Result<>> {
    json::object body{{"name", *name}, {"admin", *admin}};
    if (!tenant->empty()) body["tenant"] = *tenant;
    FB_CO_TRY_ASSIGN(const json::object made, co_await client.call("POST", "/v1/keys", body));
    print_json(made);
    co_return Result<>();
  };
  add_call(add, common, commands, make);
  CLI::App* rm = key->add_subcommand("rm", "Revoke a key, at once");
  rm->add_option("KEY", *name)->required();
  rm->add_option("--tenant", *tenant, of_other);
  add_call(rm, common, commands, [name, tenant](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", keys_path(*name, *tenant)));
    co_return Result<>();
  });
}

void add_quota(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* quota = app.add_subcommand("quota", "Limits of a tenant");
  quota->require_subcommand(1);
  CLI::App* show = quota->add_subcommand("show", "Your own limits, as JSON");
  add_call(show, common, commands, [](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/tenant"));
    print_json(answer.at("limits"));
    co_return Result<>();
  });
  struct Options {
    std::string tenant;
    std::vector<std::string> limits;
  };
  auto options = std::make_shared<Options>();
  CLI::App* set = quota->add_subcommand(
      "set", "Set limits of a tenant: quota set ACCOUNT microvms=10 memoryMib=4096");
  set->add_option("ACCOUNT", options->tenant)->required();
  set->add_option("LIMIT=N", options->limits,
                  "microvms, memoryMib, images, versionsPerImage, launchesPerSecond")
      ->required();
  add_call(set, common, commands, [options](Client& client, int&) -> net::Task<Result<>> {
    json::object body;
    for (const std::string& entry : options->limits) {
      const auto at = entry.find('=');
      const auto value =
          parse_u64(at == std::string::npos ? "" : std::string_view(entry).substr(at + 1));
      if (!value) co_return fail(Code::invalid, "'" + entry + "' is not LIMIT=NUMBER");
      body[entry.substr(0, at)] = *value;
    }
    FB_CO_TRY_ASSIGN(
        const json::object answer,
        co_await client.call(
            "PUT", "/v1/tenants/" + percent_encode(options->tenant, "") + "/limits", body));
    print_json(answer.at("limits"));
    co_return Result<>();
  });
}

}  // namespace

void add_admin_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  add_usage(app, common, commands);
  add_events(app, common, commands);
  add_tenant(app, common, commands);
  add_key(app, common, commands);
  add_quota(app, common, commands);
}

}  // namespace firebreak::cli
