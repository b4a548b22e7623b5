// shell: a terminal in a microVM, or, where our input is none, a shell that reads it.
#include <memory>

#include "commands.h"
#include "exec_stream.h"
#include "terminal.h"

namespace firebreak::cli {
namespace {

struct ShellOptions {
  std::string id;
  std::string command;
  std::string user;
};

net::Task<Result<>> run_shell(Client& client, const ShellOptions& options, int& status) {
  if (stdin_is_terminal()) {
    const TerminalRequest request{.id = options.id,
                                  .argv = {},
                                  .command = options.command,
                                  .env = {},
                                  .cwd = {},
                                  .user = options.user};
    co_return co_await run_terminal(client, request, status);
  }
  // A terminal would echo the input, and would not end with it.
  std::vector<std::string> words{"/bin/sh"};
  if (!options.command.empty()) words.insert(words.end(), {"-c", options.command});
  const ExecRequest request{.id = options.id,
                            .command = std::move(words),
                            .env = {},
                            .cwd = {},
                            .user = options.user,
                            .interactive = true,
                            .timeout = {}};
  co_return co_await run_exec(client, request, status);
}

}  // namespace

void add_shell_command(Command& root, Common& common) {
  auto options = std::make_shared<ShellOptions>();
  Command& shell = root.add("shell", "Open a terminal in a microVM").group(kInsideGroup);
  shell.also({"attach", "ssh", "console"});
  shell.about(
      "The login shell of the image, with keys, colours and the window's size. The exit status is\n"
      "the shell's. When standard input is no terminal, a plain shell reads it to its end.");
  add_microvm_word(shell, options->id);
  shell.option("-c,--command", options->command, "TEXT", "Run this in place of the login shell");
  shell.option("-u,--user", options->user, "USER", "Name, uid, or uid:gid")
      .fallback("the image's USER, else root");
  shell.example("firebreak shell ID", "Ctrl-D or 'exit' ends it");
  shell.example("firebreak shell ID -c top", "");
  run_with_client(shell, common, [options](Client& client, int& status) {
    return run_shell(client, *options, status);
  });
}

}  // namespace firebreak::cli
