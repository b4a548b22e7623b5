// The command line of Firebreak: parses, wires and runs one command.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "doctor_command.h"
#include "serve_command.h"

namespace {

constexpr int kWrongUsage = 2;

int run(int argc, char** argv) {
  const std::string program_dir =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  CLI::App app("Firebreak runs code in microVMs that start, suspend and fork in milliseconds.",
               "firebreak");
  app.set_version_flag("--version", "firebreak " FIREBREAK_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.get_formatter()->column_width(30);
  app.footer("Run 'firebreak SUBCOMMAND --help' for a command's options.");

  firebreak::cli::DoctorOptions doctor_options;
  const CLI::App* doctor = firebreak::cli::add_doctor(app, doctor_options, program_dir);
  firebreak::cli::ServerConfig server;
  const CLI::App* serve = firebreak::cli::add_serve(app, server, program_dir);
  firebreak::cli::Common common;
  std::vector<firebreak::cli::Command> commands;
  app.add_option("--data-dir", common.data_dir, "Where the server's files are")
      ->envname("FIREBREAK_DATA_DIR")
      ->capture_default_str();
  firebreak::cli::add_microvm_commands(app, common, commands);
  firebreak::cli::add_exec_commands(app, common, commands);
  firebreak::cli::add_copy_command(app, common, commands);
  firebreak::cli::add_shell_command(app, common, commands);
  firebreak::cli::add_token_command(app, common, commands);
  firebreak::cli::add_image_commands(app, common, commands);
  firebreak::cli::add_egress_commands(app, common, commands);
  firebreak::cli::add_role_commands(app, common, commands);
  firebreak::cli::add_check_command(app, common, commands);
  firebreak::cli::add_admin_commands(app, common, commands);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // "serve" is the first word, or follows the option that all commands share.
  const std::size_t at = arguments.size() > 2 && arguments.front() == "--data-dir" ? 2 : 0;
  if (arguments.size() > at && arguments[at] == "serve") {
    auto whole = firebreak::cli::with_config_file(arguments);
    if (!whole) {
      firebreak::cli::print_error(whole.error().message);
      return kWrongUsage;
    }
    arguments = *std::move(whole);
  }
  // The parser takes them last first.
  std::ranges::reverse(arguments);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (app.count("--data-dir") > 0) {
    if (serve->count("--data-dir") == 0) server.data_dir = common.data_dir;
    if (doctor->count("--data-dir") == 0) doctor_options.data_dir = common.data_dir;
  }
  if (doctor->parsed()) return firebreak::cli::run_doctor(doctor_options, program_dir);
  if (serve->parsed()) return firebreak::cli::run_serve(server);
  for (const firebreak::cli::Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  std::cerr << app.help();
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    firebreak::cli::print_error(std::string("internal error: ") + error.what());
  } catch (...) {
    std::cerr << "firebreak: internal error\n";
  }
  return 1;
}
