#include "serve_command.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include <sys/resource.h>

#include "commands.h"
#include "server.h"
#include "server_options.h"

namespace firebreak::cli {
namespace {

constexpr const char* kAbout =
    R"(The first start makes the tenant 'default' and writes its keys to DATA-DIR/credentials.json (0600).
When it serves it prints "listening on URL ENDPOINTURL" and writes DATA-DIR/server.json. MicroVMs
keep running when the server ends, however it ends; the next one takes them over.

Every option can also be set in the file given by --config (TOML: listen = "127.0.0.1:7070") or as
an environment variable (FIREBREAK_LISTEN). Words come first, then the environment, then the file.)";

// Sockets, taps and logs of every microVM are open here: as many as the host allows.
void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

int run_serve(ServerConfig config) {
  raise_open_files();
  config.data_dir = std::filesystem::absolute(config.data_dir).string();
  config.guest_dir = std::filesystem::absolute(config.guest_dir).string();
  auto served = serve(config);
  if (served) return 0;
  print_error(served.error().text());
  return 1;
}

}  // namespace

void add_serve_command(Command& root, const ServerChoice& choice, const std::string& program_dir) {
  auto config = std::make_shared<ServerConfig>();
  config->guest_dir = program_dir + "/guest";
  config->holder = program_dir + "/firebreak-holder";
  Command& serve = root.add("serve", "Serve the API").group(kServerGroup).about(kAbout);
  serve.option("--config", config->config_file, "FILE", "Read options from this TOML file")
      .kind(ValueKind::file);
  add_server_options(serve, *config);
  serve.example("firebreak serve --listen 127.0.0.1:7070", "until Ctrl-C or SIGTERM");
  serve.example("firebreak serve --config /etc/firebreak.toml", "options from a file");
  serve.check([config, &serve] { return read_configuration(serve, config->config_file); });
  serve.run([config, &choice] {
    config->data_dir = choice.data_dir;
    return run_serve(*config);
  });
  root.add("server-options", "Print the options of serve as the page about operations has them")
      .hide()
      .run([] {
        std::cout << server_options_page();
        return 0;
      });
}

}  // namespace firebreak::cli
