// The command line of Firebreak: describes its commands, parses, and runs the one that was chosen.
#include <exception>
#include <filesystem>
#include <iostream>

#include "commands.h"
#include "doctor_command.h"
#include "serve_command.h"

namespace firebreak::cli {
namespace {

constexpr const char* kAbout =
    R"(The server is found by --context, by FIREBREAK_URL and FIREBREAK_API_KEY, by the context that
'firebreak login' made, or in the data directory of a server on this host, in this order.)";

int run(int argc, char** argv) {
  const std::string program_dir =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  Command root("firebreak", "Firebreak runs code in microVMs that start, suspend and fork");
  Common common;
  bool version = false;
  const Option& data_dir =
      root.option("--data-dir", common.server.data_dir, "DIR", "Directory of the server's files")
          .environment("FIREBREAK_DATA_DIR")
          .kind(ValueKind::directory);
  root.option("--context", common.server.context, "NAME",
              "Server to talk to, as 'firebreak context ls' names it")
      .kind(ValueKind::context)
      .excludes("--data-dir");
  root.flag("--version", version, "Print the version and exit");
  root.check([&] {
    common.server.data_dir_given = data_dir.given;
    return Result<>();
  });
  root.about(kAbout);
  root.example("firebreak run python", "a microVM; prints its id");
  root.example("firebreak exec ID -- uname -a", "a command in it");
  root.example("firebreak COMMAND --help", "a command's options and examples");
  add_run_command(root, common);
  add_list_commands(root, common);
  add_microvm_commands(root, common);
  add_exec_commands(root, common);
  add_code_command(root, common);
  add_shell_command(root, common);
  add_copy_command(root, common);
  add_port_forward_command(root, common);
  add_token_commands(root, common);
  add_image_commands(root, common);
  add_egress_commands(root, common);
  add_role_commands(root, common);
  add_secret_commands(root, common);
  add_session_commands(root, common);
  add_template_commands(root, common);
  add_admin_commands(root, common);
  add_check_command(root, common);
  add_serve_command(root, common.server, program_dir);
  add_mcp_command(root, common);
  add_doctor_command(root, common.server.data_dir, program_dir);
  add_context_commands(root, common);
  add_own_commands(root, common);

  auto parsed = parse_words(root, {argv + 1, argv + argc});
  if (!parsed) {
    print_error(parsed.error().message);
    return kWrongUsage;
  }
  if (parsed->help) {
    std::cout << help_text(*parsed->command);
    return 0;
  }
  if (parsed->command->body) return parsed->command->body();
  if (version) {
    print_line("firebreak " FIREBREAK_VERSION);
    return 0;
  }
  std::cerr << help_text(root);
  return kWrongUsage;
}

}  // namespace
}  // namespace firebreak::cli

int main(int argc, char** argv) {
  try {
    return firebreak::cli::run(argc, argv);
  } catch (const std::exception& error) {
    firebreak::cli::print_error(std::string("internal error: ") + error.what());
  } catch (...) {
    std::cerr << "firebreak: internal error\n";
  }
  return 1;
}
