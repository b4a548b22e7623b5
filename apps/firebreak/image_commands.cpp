// image ls, bases, cache, show, history, logs, rm; build is in build_command.cpp.
#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

std::string image_path(const std::string& name) {
  return "/v1/images/" + percent_encode(name, "");
}

// NAME or NAME:VERSION.
struct ImageAndVersion {
  std::string name;
  std::string version;  // may be empty

  explicit ImageAndVersion(const std::string& text) : name(text.substr(0, text.rfind(':'))) {
    if (name.size() < text.size()) version = text.substr(name.size() + 1);
  }
  std::string path() const {
    return image_path(name) + "/versions/" +
           percent_encode(version.empty() ? "latest" : version, "");
  }
};

std::string mib_of(const json::object& object, const char* member) {
  return std::to_string(parse_u64(text_of(object, member)).value_or(0) >> 20);
}

net::Task<Result<>> list(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/images"));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "STATE", "OWNER", "CREATED", "DISK MIB", "MEMORY MIB"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& image = item.as_object();
    table.add({text_of(image, "name"), text_of(image, "state"),
               text_of(image, "system") == "true" ? "system" : "you", age_of(image, "createdAt"),
               mib_of(image, "diskBytes"), mib_of(image, "memoryBytes")});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> cache(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/build-cache"));
  if (as_json) {
    print_json(answer);
    co_return Result<>();
  }
  TextTable table({"KEPT", "COUNT", "MIB"});
  table.add({"layers", text_of(answer, "layers"), mib_of(answer, "layerBytes")});
  table.add({"cache mounts", "", mib_of(answer, "mountBytes")});
  table.print();
  co_return Result<>();
}

net::Task<Result<>> bases(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/bases"));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  constexpr std::size_t kShortDigest = 19;  // with "sha256:"
  TextTable table({"NAME", "VERSION", "DIGEST", "MIB", "ALSO"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& base = item.as_object();
    std::string also;
    for (const json::value& alias : base.at("aliases").as_array())
      also += (also.empty() ? "" : " ") + std::string(alias.as_string());
    table.add({text_of(base, "name"), text_of(base, "version"),
               text_of(base, "digest").substr(0, kShortDigest), mib_of(base, "diskBytes"), also});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> show(Client& client, const std::string& text) {
  const ImageAndVersion image(text);
  const std::string path = image.version.empty() ? image_path(image.name) : image.path();
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", path));
  print_json(answer);
  co_return Result<>();
}

net::Task<Result<>> history(Client& client, const std::string& text, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("GET", ImageAndVersion(text).path()));
  const json::value* steps = answer.if_contains("steps");
  if (steps == nullptr || !steps->is_array())
    co_return fail(Code::not_found, text + " was not built from a Dockerfile");
  if (as_json) {
    print_json(*steps);
    co_return Result<>();
  }
  TextTable table({"SECONDS", "KIB", "CACHED", "STEP"});
  for (const json::value& item : steps->as_array()) {
    const json::object& step = item.as_object();
    const std::uint64_t ms = parse_u64(text_of(step, "ms")).value_or(0);
    const std::uint64_t bytes = parse_u64(text_of(step, "bytes")).value_or(0);
    const std::string what = text_of(step, "text");
    table.add({std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100),
               std::to_string(bytes >> 10), text_of(step, "cached") == "true" ? "yes" : "no",
               what.substr(0, what.find('\n')).substr(0, 100)});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> logs(Client& client, const std::string& text, bool follow) {
  FB_CO_TRY_ASSIGN(
      auto stream,
      co_await client.start(
          "GET", ImageAndVersion(text).path() + "/log" + (follow ? "?follow=1" : ""), false));
  FB_CO_TRY(co_await Client::check(*stream));
  LogOutput log(STDOUT_FILENO);
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) co_return log.finish();
    FB_CO_TRY(log.write(bytes));
  }
}

net::Task<Result<>> remove(Client& client, const std::string& text) {
  const ImageAndVersion image(text);
  FB_CO_TRY(co_await client.call("DELETE",
                                 image.version.empty() ? image_path(image.name) : image.path()));
  co_return Result<>();
}

}  // namespace

void add_image_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* image = app.add_subcommand("image", "Images: what microVMs start from");
  image->require_subcommand(1);
  add_build_command(*image, common, commands);

  CLI::App* ls = image->add_subcommand("ls", "List images");
  ls->add_flag("--json", common.json, "Print JSON");
  commands.push_back({ls, [&common] {
                        return with_client(common, [&](Client& client, int&) {
                          return list(client, common.json);
                        });
                      }});

  CLI::App* from = image->add_subcommand("bases", "List the bases that every FROM can name");
  from->add_flag("--json", common.json, "Print JSON");
  commands.push_back({from, [&common] {
                        return with_client(common, [&](Client& client, int&) {
                          return bases(client, common.json);
                        });
                      }});

  CLI::App* kept = image->add_subcommand("cache", "What builds keep for your next ones");
  kept->add_flag("--json", common.json, "Print JSON");
  commands.push_back({kept, [&common] {
                        return with_client(common, [&](Client& client, int&) {
                          return cache(client, common.json);
                        });
                      }});

  auto name = std::make_shared<std::string>();
  auto following = std::make_shared<bool>(false);
  const auto command = [&](const char* verb, const char* help, auto run) {
    CLI::App* one = image->add_subcommand(verb, help);
    one->add_option("NAME", *name, "NAME or NAME:VERSION")->required();
    commands.push_back({one, [name, following, run, &common] {
                          return with_client(common, [&](Client& client, int&) {
                            return run(client, *name, common, *following);
                          });
                        }});
    return one;
  };
  command(
      "show", "An image and its versions, or one version, as JSON",
      [](Client& client, const std::string& which, Common&, bool) { return show(client, which); });
  CLI::App* history_app =
      command("history", "The steps of a version's build: time, size, whether cached",
              [](Client& client, const std::string& which, Common& common_, bool) {
                return history(client, which, common_.json);
              });
  history_app->add_flag("--json", common.json, "Print JSON");
  CLI::App* logs_app = command("logs", "What a version's build printed",
                               [](Client& client, const std::string& which, Common&, bool follow) {
                                 return logs(client, which, follow);
                               });
  logs_app->add_flag("--follow", *following, "Until the build has ended");
  command("cancel", "End the build of a version",
          [](Client& client, const std::string& which, Common&, bool) -> net::Task<Result<>> {
            FB_CO_TRY(co_await client.call("POST", ImageAndVersion(which).path() + "/cancel"));
            co_return Result<>();
          });
  command("rm", "Remove an image and its snapshots, or one version",
          [](Client& client, const std::string& which, Common&, bool) {
            return remove(client, which);
          });
}

}  // namespace firebreak::cli
