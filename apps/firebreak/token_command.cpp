// token: issue, list and revoke tokens of a microVM's endpoint.
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

struct TokenOptions {
  std::string id;
  std::string ports;
  std::uint64_t expires = 3600;
  bool shell = false;
  bool list = false;
  std::string revoke;
};

net::Task<Result<>> list_tokens(Client& client, const TokenOptions& options, bool json) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("GET", microvm_path(options.id, "/tokens")));
  if (json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"ID", "KIND", "PORTS", "ISSUED", "REVOKED"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& token = item.as_object();
    table.add({text_of(token, "id"), text_of(token, "kind"), text_of(token, "ports"),
               age_of(token, "createdAt"), age_of(token, "revokedAt")});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> issue_token(Client& client, const TokenOptions& options, bool json) {
  json::object body{{"expiresSeconds", options.expires}};
  if (options.shell) {
    body["kind"] = "shell";
  } else if (options.ports.empty()) {
    co_return fail(Code::invalid, "say --port N, --port '*' or --shell");
  } else {
    body["ports"] = options.ports;
  }
  FB_CO_TRY_ASSIGN(const json::object issued,
                   co_await client.call("POST", microvm_path(options.id, "/tokens"), body));
  if (json)
    print_json(issued);
  else
    print_line(text_of(issued, "token"));
  co_return Result<>();
}

}  // namespace

void add_token_command(CLI::App& app, Common& common, std::vector<Command>& commands) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* token =
      app.add_subcommand("token", "Issue a token for a microVM's endpoint; prints it");
  token->add_option("ID", options->id, "MicroVM")->required();
  token->add_option("--port", options->ports, "Ports it opens: 8080, 8080,9000-9010, or '*'");
  token->add_option("--expires", options->expires, "Good for so many seconds")
      ->capture_default_str();
  token->add_flag("--shell", options->shell, "For a terminal instead of ports");
  token->add_flag("--list", options->list, "List those that were issued");
  token->add_option("--revoke", options->revoke, "Revoke the one with this id");
  token->add_flag("--json", common.json, "Print JSON");
  commands.push_back(
      {token, [options, &common] {
         return with_client(common, [&](Client& client, int&) -> net::Task<Result<>> {
           if (options->list) co_return co_await list_tokens(client, *options, common.json);
           if (options->revoke.empty())
             co_return co_await issue_token(client, *options, common.json);
           FB_CO_TRY(co_await client.call(
               "DELETE",
               microvm_path(options->id, "/tokens/" + percent_encode(options->revoke, ""))));
           print_line(options->revoke);
           co_return Result<>();
         });
       }});
}

}  // namespace firebreak::cli
