// endpoint, token: where a microVM is called, and the tokens that open it.
#include <memory>

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
  if (options.shell)
    body["kind"] = "shell";
  else
    body["ports"] = options.ports;
  FB_CO_TRY_ASSIGN(const json::object issued,
                   co_await client.call("POST", microvm_path(options.id, "/tokens"), body));
  if (json)
    print_json(issued);
  else
    print_line(text_of(issued, "token"));
  co_return Result<>();
}

net::Task<Result<>> revoke_token(Client& client, const TokenOptions& options) {
  FB_CO_TRY(co_await client.call(
      "DELETE", microvm_path(options.id, "/tokens/" + percent_encode(options.revoke, ""))));
  print_line(options.revoke);
  co_return Result<>();
}

void add_token(Command& root, Common& common) {
  auto options = std::make_shared<TokenOptions>();
  Command& token = root.add("token", "Issue a token for a microVM's endpoint; prints it");
  token.group(kInsideGroup);
  add_microvm_word(token, options->id);
  token
      .option("--port", options->ports, "PORTS",
              "Ports in the guest that it opens: 8080, or 8080,9000-9010, or '*' for all")
      .excludes("--shell");
  token.flag("--shell", options->shell, "For a terminal instead of ports");
  token.option("--expires", options->expires, "SECONDS", "How long it is good")
      .range(1, 604800, "tokens live for seven days at most");
  token.flag("--list", options->list, "List those that were issued");
  token.option("--revoke", options->revoke, "TOKENID", "Revoke the one with this id");
  add_json_flag(token, common);
  token.example("firebreak token ID --port 8080", "for header X-aws-proxy-auth");
  token.example("firebreak token ID --list", "ids of what was issued");
  token.check([options]() -> Result<> {
    const int asked = (options->ports.empty() ? 0 : 1) + (options->shell ? 1 : 0) +
                      (options->list ? 1 : 0) + (options->revoke.empty() ? 0 : 1);
    if (asked == 1) return {};
    if (asked == 0)
      return fail(Code::invalid, "nothing says what the token is for",
                  Repair{"give --port N, --port '*' or --shell (or --list, or --revoke TOKENID)"});
    return fail(Code::invalid, "--port, --shell, --list and --revoke exclude each other",
                Repair{"give one"});
  });
  run_with_client(token, common, [options, &common](Client& client, int&) {
    if (options->list) return list_tokens(client, *options, common.json);
    if (!options->revoke.empty()) return revoke_token(client, *options);
    return issue_token(client, *options, common.json);
  });
}

struct EndpointOptions {
  std::string id;
  std::string ports;
};

void add_endpoint(Command& root, Common& common) {
  auto options = std::make_shared<EndpointOptions>();
  Command& endpoint = root.add("endpoint", "Print the URL of a microVM's endpoint");
  endpoint.group(kInsideGroup).also({"url"});
  endpoint.about(
      "Every request needs a token ('firebreak token') in the header X-aws-proxy-auth. It goes to\n"
      "port 8080 of the guest, or to the one in the header X-aws-proxy-port.");
  add_microvm_word(endpoint, options->id);
  endpoint.option("--token", options->ports, "PORTS",
                  "Also issue a token for these ports, good for an hour, and print it on a second "
                  "line");
  endpoint.example(
      "curl -H \"X-aws-proxy-auth: $(firebreak token ID --port 8080)\" "
      "\"$(firebreak endpoint ID)\"",
      "");
  endpoint.example("firebreak endpoint ID --token 8080", "");
  run_with_client(endpoint, common, [options](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(const json::object microvm,
                     co_await client.call("GET", microvm_path(options->id)));
    print_line("https://" + text_of(microvm, "endpoint") + "/");
    if (options->ports.empty()) co_return Result<>();
    const TokenOptions token{.id = options->id, .ports = options->ports, .revoke = {}};
    co_return co_await issue_token(client, token, false);
  });
}

}  // namespace

void add_token_commands(Command& root, Common& common) {
  add_endpoint(root, common);
  add_token(root, common);
}

}  // namespace firebreak::cli
