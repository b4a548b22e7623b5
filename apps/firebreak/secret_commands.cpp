// secret: what is taken out of everything that guests send.
#include <memory>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr const char* kAbout =
    R"(A secret that is registered here is taken out of what commands print, of results, logs and
terminals ([redacted:NAME]), and masked with stars in files and archives that leave a guest.
It is also found in base64, in hex and percent-encoded. Its value is sealed in the server's
store and never shown again.)";

std::string secret_path(const std::string& name) {
  return "/v1/secrets/" + percent_encode(name, "");
}

net::Task<Result<>> list_secrets(const Common& common, Client& client) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/secrets"));
  if (common.json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  TextTable table({"NAME", "SET"});
  for (const json::value& item : answer.at("items").as_array())
    table.add({text_of(item.as_object(), "name"), age_of(item.as_object(), "setAt")});
  table.print();
  co_return Result<>();
}

// The value's last line end is the terminal's or the editor's, not the secret's.
net::Task<Result<>> set_secret(Client& client, std::string name, std::string file) {
  FB_CO_TRY_ASSIGN(std::string value, read_input(file));
  if (value.ends_with('\n')) value.pop_back();
  FB_CO_TRY(co_await client.call("PUT", secret_path(name), json::object{{"value", value}}));
  co_return Result<>();
}

}  // namespace

void add_secret_commands(Command& root, Common& common) {
  Command& secret = root.add("secret", "Manage secrets: what is redacted in what guests send");
  secret.group(kRulesGroup).about(kAbout);
  secret.example("firebreak secret set database < password.txt", "from standard input");
  secret.example("firebreak secret ls", "names; values are never shown");
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>("-");
  const auto add_name = [name](Command& command) {
    command.word("NAME", *name, "Name of the secret, shown in its place").required();
  };
  Command& set = secret.add("set", "Register a secret, or replace its value");
  add_name(set);
  set.word("FILE", *file, "File with the value; - is standard input").kind(ValueKind::file);
  set.example("firebreak secret set database password.txt", "from a file");
  set.example("pass show database | firebreak secret set database", "from another program");
  run_with_client(set, common,
                  [name, file](Client& client, int&) { return set_secret(client, *name, *file); });
  Command& ls = secret.add("ls", "List the names of secrets").also({"list"});
  add_json_flag(ls, common);
  ls.example("firebreak secret ls", "a table");
  ls.example("firebreak secret ls --json", "the same for programs");
  run_with_client(ls, common,
                  [&common](Client& client, int&) { return list_secrets(common, client); });
  Command& rm =
      secret.add("rm", "Forget a secret; it is no longer looked for").also({"delete", "remove"});
  add_name(rm);
  rm.example("firebreak secret rm database", "");
  rm.example("firebreak secret ls", "those that are left");
  run_with_client(rm, common, [name](Client& client, int&) -> net::Task<Result<>> {
    FB_CO_TRY(co_await client.call("DELETE", secret_path(*name)));
    co_return Result<>();
  });
}

}  // namespace firebreak::cli
