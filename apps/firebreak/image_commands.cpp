// image ls, show, rm, build.
#include <iostream>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

std::string image_path(const std::string& name) {
  return "/v1/images/" + percent_encode(name, "");
}

net::Task<Result<>> list(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/images"));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "STATE", "OWNER", "CREATED"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& image = item.as_object();
    table.add({text_of(image, "name"), text_of(image, "state"),
               text_of(image, "system") == "true" ? "system" : "you", age_of(image, "createdAt")});
  }
  table.print();
  co_return Result<>();
}

}  // namespace

void add_image_commands(CLI::App& app, Common& common, std::vector<Command>& commands) {
  CLI::App* image = app.add_subcommand("image", "Images: what microVMs start from");
  image->require_subcommand(1);

  CLI::App* ls = image->add_subcommand("ls", "List images");
  ls->add_flag("--json", common.json, "Print JSON");
  commands.push_back({ls, [&common] {
                        return with_client(common, [&](Client& client, int&) {
                          return list(client, common.json);
                        });
                      }});

  auto name = std::make_shared<std::string>();
  CLI::App* show = image->add_subcommand("show", "One image and its versions, as JSON");
  show->add_option("NAME", *name)->required();
  commands.push_back({show, [name, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY_ASSIGN(const json::object answer,
                                               co_await client.call("GET", image_path(*name)));
                              print_json(answer);
                              co_return Result<>();
                            });
                      }});

  CLI::App* rm = image->add_subcommand("rm", "Remove an image and its snapshots");
  rm->add_option("NAME", *name)->required();
  commands.push_back({rm, [name, &common] {
                        return with_client(
                            common, [&](Client& client, int&) -> net::Task<Result<>> {
                              FB_CO_TRY(co_await client.call("DELETE", image_path(*name)));
                              co_return Result<>();
                            });
                      }});
}

}  // namespace firebreak::cli
