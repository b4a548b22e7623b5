// run, ps, show, suspend, resume, fork, kill, events.
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

struct RunOptions {
  std::string image;
  std::string version;
  std::string payload;
  std::uint64_t idle = 0;
  std::uint64_t suspended = 24UL * 3600;
  std::string rule = "work";
  bool no_auto_resume = false;
  std::uint64_t max = 0;
  std::vector<std::string> tags;
  std::string egress;
  std::string role;
  std::uint64_t memory = 0;
};

// Memory is part of the snapshot that a microVM starts from: it can be asked for, not chosen.
net::Task<Result<>> check_memory(Client& client, const RunOptions& options) {
  std::string name = options.image;
  std::string wanted = options.version;
  if (const auto colon = name.find(':'); wanted.empty() && colon != std::string::npos) {
    wanted = name.substr(colon + 1);
    name.resize(colon);
  }
  FB_CO_TRY_ASSIGN(const json::object image,
                   co_await client.call("GET", "/v1/images/" + percent_encode(name, "")));
  const json::object* chosen = nullptr;
  for (const json::value& item : image.at("versions").as_array()) {
    const json::object& version = item.as_object();
    const bool fits = wanted.empty() ? text_of(version, "active") == "true"
                                     : text_of(version, "version") == wanted;
    const bool newer = chosen == nullptr || parse_u64(text_of(version, "createdAt")) >
                                                parse_u64(text_of(*chosen, "createdAt"));
    if (fits && newer) chosen = &version;
  }
  if (chosen == nullptr || text_of(*chosen, "memoryMib") == std::to_string(options.memory))
    co_return Result<>();
  co_return fail(Code::invalid, "microVMs of " + name + ":" + text_of(*chosen, "version") +
                                    " have " + text_of(*chosen, "memoryMib") +
                                    " MiB, which is fixed when an image is built; build one with "
                                    "--memory " +
                                    std::to_string(options.memory));
}

Result<json::object> run_body(const RunOptions& options) {
  json::object body{{"image", options.image}};
  if (!options.version.empty()) body["version"] = options.version;
  if (!options.payload.empty()) body["payload"] = options.payload;
  if (!options.egress.empty()) body["egress"] = options.egress;
  if (!options.role.empty()) body["role"] = options.role;
  if (options.max != 0) body["maxDurationSeconds"] = options.max;
  if (options.idle != 0) {
    body["idle"] = json::object{{"maxIdleSeconds", options.idle},
                                {"suspendedSeconds", options.suspended},
                                {"autoResume", !options.no_auto_resume},
                                {"rule", options.rule}};
  }
  json::object tags;
  for (const std::string& tag : options.tags) {
    const auto at = tag.find('=');
    if (at == std::string::npos) return fail(Code::invalid, "--tag needs KEY=VALUE");
    tags[tag.substr(0, at)] = tag.substr(at + 1);
  }
  if (!tags.empty()) body["tags"] = std::move(tags);
  return body;
}

void add_run(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run a microVM; prints its id");
  run->add_option("IMAGE", options->image, "Name of an image ('firebreak image ls')")->required();
  run->add_option("--version", options->version,
                  "Version of the image; default: the newest active");
  run->add_option("--payload", options->payload, "Text for the application's run hook");
  run->add_option("--egress", options->egress,
                  "Egress policy ('firebreak egress ls'); default: the image's, or the tenant's");
  run->add_option("--role", options->role,
                  "Role whose credentials its programs get ('firebreak role ls')");
  run->add_option("--memory", options->memory,
                  "MiB that it must have: refused if the image was built with another size");
  run->add_option("--idle", options->idle, "Suspend after so many seconds of nothing");
  run->add_option("--suspended", options->suspended, "Then terminate after so many seconds")
      ->capture_default_str();
  run->add_option("--idle-rule", options->rule,
                  "work: execs, requests and CPU keep it awake; traffic: only bytes do")
      ->check(CLI::IsMember({"work", "traffic"}))
      ->capture_default_str();
  run->add_flag("--no-auto-resume", options->no_auto_resume, "Resume it only when asked to");
  run->add_flag("--json", common.json, "Print JSON");
  run->add_option("--max", options->max, "Terminate after so many seconds");
  run->add_option("--tag", options->tags, "KEY=VALUE, may be repeated")->allow_extra_args(false);
  commands.push_back({run, [options, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY_ASSIGN(json::object body, run_body(*options));
                              if (options->memory != 0)
                                FB_CO_TRY(co_await check_memory(client, *options));
                              FB_CO_TRY_ASSIGN(const json::object made,
                                               co_await client.call("POST", "/v1/microvms", body));
                              if (common.json)
                                print_json(made);
                              else
                                print_line(text_of(made, "id"));
                              co_return Result<>();
                            });
                      }});
}

void add_ps(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto all = std::make_shared<bool>(false);
  CLI::App* ps = app.add_subcommand("ps", "List microVMs");
  ps->add_flag("-a,--all", *all, "Also those that have ended");
  ps->add_flag("--json", common.json, "Print JSON");
  commands.push_back(
      {ps, [all, &common] {
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           json::array items;
           std::string token;
           do {
             FB_CO_TRY_ASSIGN(json::object page,
                              co_await client.call("GET", "/v1/microvms?pageSize=1000&pageToken=" +
                                                              percent_encode(token, "")));
             for (json::value& item : page.at("items").as_array()) {
               if (*all || text_of(item.as_object(), "state") != "TERMINATED")
                 items.push_back(std::move(item));
             }
             token = text_of(page, "nextPageToken");
           } while (!token.empty());
           if (common.json) {
             print_json(items);
             co_return Result<>();
           }
           TextTable table({"ID", "IMAGE", "STATE", "STARTED", "REASON"});
           for (const json::value& item : items) {
             const json::object& vm = item.as_object();
             table.add({text_of(vm, "id"), text_of(vm, "image") + ":" + text_of(vm, "imageVersion"),
                        text_of(vm, "state"), age_of(vm, "startedAt"), text_of(vm, "stateReason")});
           }
           table.print();
           co_return Result<>();
         });
       }});
}

// A command that names one microVM and makes one call.
void add_simple(CLI::App& app, Common& common, std::vector<Command>& commands, const char* name,
                const char* help, const char* method, const char* rest) {
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("ID", *ids, "MicroVMs")->required();
  command->add_flag("--json", common.json, "Print JSON");
  commands.push_back({command, [ids, &common, method, rest] {
                        return with_client(
                            common, [&](Client& client, int& status) -> net::Task<Result<>> {
                              for (const std::string& id : *ids) {
                                auto answer = co_await client.call(method, microvm_path(id, rest));
                                if (!answer) {
                                  print_error(id + ": " + answer.error().message);
                                  status = 1;
                                  continue;
                                }
                                if (common.json)
                                  print_json(*answer);
                                else
                                  print_line(text_of(*answer, "id"));
                              }
                              co_return Result<>();
                            });
                      }});
}

void add_fork(CLI::App& app, Common& common, std::vector<Command>& commands) {
  struct Options {
    std::string id;
    std::uint32_t count = 1;
  };
  auto options = std::make_shared<Options>();
  CLI::App* fork = app.add_subcommand("fork", "Make running copies of a microVM; prints their ids");
  fork->add_option("ID", options->id)->required();
  fork->add_option("-n,--count", options->count, "How many")->check(CLI::Range(1, 64));
  fork->add_flag("--json", common.json, "Print JSON");
  commands.push_back(
      {fork, [options, &common] {
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           FB_CO_TRY_ASSIGN(const json::object made,
                            co_await client.call("POST", microvm_path(options->id, "/fork"),
                                                 json::object{{"count", options->count}}));
           if (common.json)
             print_json(made.at("items"));
           else
             for (const json::value& child : made.at("items").as_array())
               print_line(text_of(child.as_object(), "id"));
           co_return Result<>();
         });
       }});
}

void add_show(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto id = std::make_shared<std::string>();
  CLI::App* show = app.add_subcommand("show", "All about one microVM, as JSON");
  show->add_option("ID", *id)->required();
  commands.push_back({show, [id, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY_ASSIGN(const json::object answer,
                                               co_await client.call("GET", microvm_path(*id)));
                              print_json(answer);
                              co_return Result<>();
                            });
                      }});
}

}  // namespace

void add_microvm_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  add_run(app, common, commands);
  add_ps(app, common, commands);
  add_show(app, common, commands);
  add_simple(app, common, commands, "suspend", "Suspend microVMs, memory kept", "POST", "/suspend");
  add_simple(app, common, commands, "resume", "Resume microVMs", "POST", "/resume");
  add_fork(app, common, commands);
  add_simple(app, common, commands, "kill", "Terminate microVMs", "DELETE", "");
}

}  // namespace firebreak::cli
