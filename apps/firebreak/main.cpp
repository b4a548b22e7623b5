// The command line of Firebreak: parses, wires and runs one command.
#include <exception>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "doctor_command.h"

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (doctor->parsed()) return firebreak::cli::run_doctor(doctor_options, program_dir);
  std::cerr << app.help();
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "firebreak: internal error: " << error.what() << "\n";
  } catch (...) {
    std::cerr << "firebreak: internal error\n";
  }
  return 1;
}
