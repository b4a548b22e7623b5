// The commands that talk to a running server. Each adds itself to the parser and returns its exit
// status when it was chosen. Owned by main; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "client.h"
#include "client/output.h"

namespace firebreak::cli {

// A command that the parser may choose.
struct Command {
  const CLI::App* app = nullptr;
  std::function<int()> run;
};

// What all of them share; outlives the parsing.
struct Common {
  std::string data_dir = "/var/lib/firebreak";
  bool json = false;
};

void add_microvm_commands(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_exec_commands(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_copy_command(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_shell_command(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_token_command(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_image_commands(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_build_command(CLI::App& image, Common& common, std::vector<Command>& commands);
void add_check_command(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_egress_commands(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_role_commands(CLI::App& app, Common& common, std::vector<Command>& commands);
void add_admin_commands(CLI::App& app, Common& common, std::vector<Command>& commands);

// Connects and runs; prints an error and returns 1 when it fails. The body may set the status.
int with_client(const Common& common,
                const std::function<net::Task<Result<>>(Client&, int& status)>& body);

// All that is printed for people goes through these.
using client::LogOutput;
using client::print_error;
using client::print_json;
using client::print_json_text;
using client::print_line;
using client::TextTable;

std::string text_of(const json::object& object, std::string_view name);  // "" when absent or null
std::string age_of(const json::object& object, std::string_view name);   // "3 m ago"
std::string microvm_path(const std::string& id, const std::string& rest = "");

}  // namespace firebreak::cli
