// login, context: which servers this user talks to.
#include <iostream>
#include <memory>

#include <termios.h>
#include <unistd.h>

#include "commands.h"
#include "contexts.h"
#include "terminal.h"

namespace firebreak::cli {
namespace {

// Our terminal without echo; put back at the end.
class SilentTerminal {
 public:
  SilentTerminal() {
    if (!stdin_is_terminal() || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    active_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) == 0;
  }
  ~SilentTerminal() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;

 private:
  termios before_{};
  bool active_ = false;
};

std::string read_key() {
  const bool asks = stdin_is_terminal();
  std::string key;
  {
    const SilentTerminal silent;
    if (asks) std::cerr << "API key: " << std::flush;
    std::getline(std::cin, key);
  }
  if (asks) std::cerr << "\n";
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
  return key;
}

struct LoginOptions {
  std::string url;
  std::string ca_file;
};

int complain(const Error& error) {
  print_error(error.message);
  return 1;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

int login(const LoginOptions& options, std::string name) {
  auto connection = connection_to(options.url, "", options.ca_file);
  if (!connection) return complain(connection.error());
  auto contexts = read_contexts();
  if (!contexts) return complain(contexts.error());
  const std::string host = connection->host;
  if (options.url.starts_with("http://") && !is_loopback(host))
    print_error("the key travels to " + host + " in the clear; use https:// where others listen");
  connection->api_key = read_key();
  if (connection->api_key.empty())
    return complain(
        fail(Code::invalid, "no key was given", Repair{"'firebreak key add' makes one"}).error());
  const ServerContext server{options.url, connection->api_key, options.ca_file};
  Client client(*std::move(connection));
  json::object tenant;
  auto checked = client.run([](Client& asks, json::object& answer) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(answer, co_await asks.call("GET", "/v1/tenant"));
    co_return Result<>();
  }(client, tenant));
  if (!checked && checked.error().code == Code::unauthenticated)
    return complain(refused_key(options.url));
  if (!checked) return complain(checked.error());
  if (name.empty()) name = host;
  contexts->servers[name] = server;
  contexts->current = name;
  if (auto written = write_contexts(*contexts); !written) return complain(written.error());
  print_line("context " + name + ": tenant " + text_of(tenant, "name") + " (" +
             text_of(tenant, "accountId") + ") at " + server.url);
  return 0;
}

int list(bool as_json, bool quiet) {
  auto contexts = read_contexts();
  if (!contexts) return complain(contexts.error());
  if (as_json) {
    json::array items;
    for (const auto& [name, server] : contexts->servers)
      items.push_back(json::object{{"name", name},
                                   {"url", server.url},
                                   {"caFile", server.ca_file},
                                   {"current", name == contexts->current}});
    print_json(items);
    return 0;
  }
  TextTable table({"CURRENT", "NAME", "URL"});
  for (const auto& [name, server] : contexts->servers) {
    if (quiet)
      print_line(name);
    else
      table.add({name == contexts->current ? "*" : "", name, server.url});
  }
  if (!quiet) table.print();
  return 0;
}

int use(const std::string& name) {
  auto contexts = read_contexts();
  if (!contexts) return complain(contexts.error());
  if (auto known = find_context(*contexts, name); !known) return complain(known.error());
  contexts->current = name;
  if (auto written = write_contexts(*contexts); !written) return complain(written.error());
  return 0;
}

int forget(const std::string& name) {
  auto contexts = read_contexts();
  if (!contexts) return complain(contexts.error());
  if (auto known = find_context(*contexts, name); !known) return complain(known.error());
  contexts->servers.erase(name);
  if (contexts->current == name) contexts->current.clear();
  if (auto written = write_contexts(*contexts); !written) return complain(written.error());
  return 0;
}

void add_login(Command& root, Common& common) {
  auto options = std::make_shared<LoginOptions>();
  Command& command = root.add("login", "Keep a server's address and key for later commands");
  command.group(kClientGroup);
  command.about(
      "Reads the key from standard input, without showing it, and checks it with a call. Address\n"
      "and key go to ~/.config/firebreak/config.json, readable by you alone, as the context that\n"
      "--context names; later commands use it until 'firebreak context use' names another.");
  command.word("URL", options->url, "http://HOST:PORT or https://HOST:PORT")
      .required("write 'firebreak login https://HOST:PORT'");
  command.option("--ca", options->ca_file, "FILE", "Certificates to trust, in PEM, for https")
      .kind(ValueKind::file)
      .fallback("the system's");
  command.example("firebreak login https://vms.example.com:7070 --context work", "");
  command.example("firebreak login http://127.0.0.1:7070 <key-file", "without asking");
  command.run([options, &common] { return login(*options, common.server.context); });
}

}  // namespace

void add_context_commands(Command& root, Common& common) {
  add_login(root, common);
  Command& context = root.add("context", "Choose among the servers you have logged in to");
  context.group(kClientGroup);
  context.example("firebreak context ls", "");
  context.example("firebreak context use work", "");
  auto quiet = std::make_shared<bool>(false);
  auto name = std::make_shared<std::string>();
  Command& ls = context.add("ls", "List contexts; a star marks the current one").also({"list"});
  ls.flag("-q,--quiet", *quiet, "Print names only").excludes("--json");
  add_json_flag(ls, common);
  ls.example("firebreak context ls", "");
  ls.example("firebreak context ls -q", "for scripts");
  ls.run([quiet, &common] { return list(common.json, *quiet); });
  const auto add_name = [name](Command& command) {
    command.word("NAME", *name, "Name of a context")
        .kind(ValueKind::context)
        .required("'firebreak context ls' lists them");
  };
  Command& chosen = context.add("use", "Let later commands talk to this server");
  add_name(chosen);
  chosen.example("firebreak context use work", "");
  chosen.example("firebreak --context home ps", "once, without changing it");
  chosen.run([name] { return use(*name); });
  Command& rm = context.add("rm", "Forget a server's address and key");
  rm.also({"delete", "remove", "logout"});
  add_name(rm);
  rm.about("The key stays valid; 'firebreak key rm' revokes it.");
  rm.example("firebreak context rm work", "");
  rm.example("firebreak context ls", "those that are left");
  rm.run([name] { return forget(*name); });
}

}  // namespace firebreak::cli
