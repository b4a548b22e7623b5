// help, version, completion: commands about the command line itself.
#include <iostream>
#include <memory>

#include "commands.h"
#include "completion_scripts.h"
#include "contexts.h"

namespace firebreak::cli {
namespace {

// Names that the server knows. Whoever presses Tab wants names, not reasons why there are none.
std::vector<std::string> names_of(const Common& common, const std::string& path,
                                  const std::vector<std::string>& members) {
  std::vector<std::string> names;
  auto connection = find_server(common.server);
  if (!connection) return names;
  Client client(*std::move(connection));
  (void)client.run(each_item(client, path, [&](json::object item) {
    if (text_of(item, "state") == "TERMINATED") return;
    for (const std::string& member : members) names.push_back(text_of(item, member));
  }));
  return names;
}

std::vector<std::string> values_of(const Common& common, ValueKind kind) {
  switch (kind) {
    case ValueKind::microvm:
      return names_of(common, "/v1/microvms?pageSize=1000", {"id", "name"});
    case ValueKind::image:
      return names_of(common, "/v1/images?", {"name"});
    case ValueKind::policy:
      return names_of(common, "/v1/egress-policies?", {"name"});
    case ValueKind::role:
      return names_of(common, "/v1/roles?", {"name"});
    case ValueKind::file:
      return {":file"};
    case ValueKind::directory:
      return {":directory"};
    case ValueKind::context:
    case ValueKind::text:
    case ValueKind::command:
      break;
  }
  std::vector<std::string> names;
  if (kind != ValueKind::context) return names;
  if (auto contexts = read_contexts()) {
    for (const auto& [name, server] : contexts->servers) names.push_back(name);
  }
  return names;
}

// What may stand in place of the last word, one a line: the word, a tab, what it is; ":file" and
// the like stand for what only the shell knows.
void add_complete_words(Command& root, Common& common) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command& complete = root.add("complete-words", "Print what may follow these words").hide();
  complete.rest("WORDS", *words, "Words after the program's name, the last one begun");
  complete.run([words, &root, &common] {
    const Completion found = complete_words(root, *words);
    // A server that the words name is asked, not ours.
    for (const auto& rule : root.rules) (void)rule();
    for (const auto& [text, help] : found.words) std::cout << text << "\t" << help << "\n";
    const std::string begun = words->empty() ? "" : words->back();
    for (const std::string& value : values_of(common, found.kind)) {
      const std::string text = value.starts_with(':') ? value : found.prefix + value;
      if (value.starts_with(':') || (!value.empty() && text.starts_with(begun))) print_line(text);
    }
    return 0;
  });
}

void add_completion(Command& root) {
  auto shell = std::make_shared<std::string>();
  Command& completion = root.add("completion", "Print a script that completes words in a shell");
  completion.group(kClientGroup);
  completion.about(
      "It completes commands, options, their values, ids and names of microVMs, images, policies,\n"
      "roles and contexts.");
  completion.word("SHELL", *shell, "The shell").one_of({"bash", "zsh", "fish"}).required();
  completion.example("eval \"$(firebreak completion bash)\"", "in ~/.bashrc");
  completion.example("firebreak completion fish | source", "in ~/.config/fish/config.fish");
  completion.run([shell] {
    std::cout << completion_script(*shell);
    return 0;
  });
}

void add_help(Command& root) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command& help = root.add("help", "Print the help of a command").group(kClientGroup);
  help.word("COMMAND", *words, "The command, like 'run' or 'image build'").fallback("all of them");
  help.example("firebreak help", "all commands");
  help.example("firebreak help image build", "as 'firebreak image build --help'");
  help.run([words, &root] {
    // The same words as with --help, so that a misspelt one gets the same answer.
    words->push_back("--help");
    auto parsed = parse_words(root, *words);
    if (!parsed) {
      print_error(parsed.error().message);
      return kWrongUsage;
    }
    std::cout << help_text(*parsed->command);
    return 0;
  });
}

}  // namespace

void add_own_commands(Command& root, Common& common) {
  add_help(root);
  Command& version = root.add("version", "Print the version").group(kClientGroup);
  version.example("firebreak version", "");
  version.example("firebreak --version", "the same");
  version.run([] {
    print_line("firebreak " FIREBREAK_VERSION);
    return 0;
  });
  add_completion(root);
  add_complete_words(root, common);
}

}  // namespace firebreak::cli
