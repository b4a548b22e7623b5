#include "serve_arguments.h"

#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "serve_command.h"

namespace firebreak::cli {
namespace {

struct ServeArguments {
  CLI::App app;
  ServerConfig config;
  std::vector<std::string> words{"serve"};  // as they were given
};

// The option as our parser knows it: what it takes is kept for CLI11.
void describe(Command& serve, const CLI::Option& option, ServeArguments& arguments) {
  const std::string name = "--" + option.get_lnames().front();
  const bool flag = option.get_items_expected_max() == 0;
  Binding keep([&arguments, name](const std::string& value) {
    arguments.words.push_back(name + "=" + value);
    return true;
  });
  keep.default_text = option.get_default_str();
  serve.option(name, std::move(keep), flag ? "" : "VALUE", option.get_description());
}

Result<> parse(ServeArguments& arguments) {
  FB_TRY_ASSIGN(std::vector<std::string> words, with_config_file(arguments.words));
  // The parser takes them last first.
  std::ranges::reverse(words);
  try {
    arguments.app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return fail(Code::invalid, std::string("serve: ") + error.what());
  }
  return {};
}

}  // namespace

void add_serve_command(Command& root, const ServerChoice& choice, const std::string& program_dir) {
  auto arguments = std::make_shared<ServeArguments>();
  const CLI::App* declared = add_serve(arguments->app, arguments->config, program_dir);
  Command& serve = root.add("serve", "Serve the API").group(kServerGroup);
  for (const CLI::Option* option : declared->get_options()) {
    const auto& names = option->get_lnames();
    if (names.empty() || names.front() == "help" || names.front() == "data-dir") continue;
    describe(serve, *option, *arguments);
  }
  serve.about(declared->get_footer());
  serve.example("firebreak serve --listen 127.0.0.1:7070", "until Ctrl-C or SIGTERM");
  serve.example("firebreak serve --config /etc/firebreak.toml", "options from a file");
  serve.check([arguments, &choice] {
    if (choice.data_dir_given) arguments->words.push_back("--data-dir=" + choice.data_dir);
    return parse(*arguments);
  });
  serve.run([arguments] { return run_serve(arguments->config); });
}

}  // namespace firebreak::cli
