// The commands that talk to a running server, and what they share. Each adds itself to the
// description and returns its exit status when it was chosen. Owned by main; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "client.h"
#include "client/output.h"

namespace firebreak::cli {

constexpr int kWrongUsage = 2;
constexpr int kTimeoutStatus = 124;
constexpr int kNotExecutableStatus = 126;
constexpr int kNoProgramStatus = 127;
constexpr int kSignalStatus = 128;  // and the signal's number

// Headings of the help.
constexpr const char* kMicrovmGroup = "MicroVMs";
constexpr const char* kInsideGroup = "In a microVM";
constexpr const char* kImageGroup = "Images";
constexpr const char* kRulesGroup = "Network and credentials";
constexpr const char* kAdminGroup = "History and administration";
constexpr const char* kServerGroup = "Server";
constexpr const char* kClientGroup = "This program";

// What all of them share; outlives the parsing.
struct Common {
  ServerChoice server{.context = {}, .data_dir = "/var/lib/firebreak"};
  bool json = false;
};

void add_run_command(Command& root, Common& common);
void add_microvm_commands(Command& root, Common& common);
void add_list_commands(Command& root, Common& common);
void add_exec_commands(Command& root, Common& common);
void add_code_command(Command& root, Common& common);
void add_copy_command(Command& root, Common& common);
void add_shell_command(Command& root, Common& common);
void add_port_forward_command(Command& root, Common& common);
void add_token_commands(Command& root, Common& common);
void add_image_commands(Command& root, Common& common);
void add_build_command(Command& image, Common& common);
void add_check_command(Command& root, Common& common);
void add_egress_commands(Command& root, Common& common);
void add_role_commands(Command& root, Common& common);
void add_secret_commands(Command& root, Common& common);
void add_session_commands(Command& root, Common& common);
void add_template_commands(Command& root, Common& common);
void add_admin_commands(Command& root, Common& common);
void add_context_commands(Command& root, Common& common);
void add_mcp_command(Command& root, Common& common);
// help, version, completion: of the whole description.
void add_own_commands(Command& root, Common& common);

// What to say when the server answers that the key is not good.
Error refused_key(const std::string& url);

using ClientBody = std::function<net::Task<Result<>>(Client&, int& status)>;
// Connects and runs; prints an error and returns 1 when it fails. The body may set the status.
int with_client(const Common& common, const ClientBody& body);
// What the command does is talk to the server.
void run_with_client(Command& command, const Common& common, ClientBody body);

void add_json_flag(Command& command, Common& common);
// The word that names a microVM.
Option& add_microvm_word(Command& command, std::string& id);

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
// NAME=VALUE words as an object; the parser has checked that each has a '='.
json::object object_of_pairs(const std::vector<std::string>& pairs);
// The text of a file, or of standard input for "-".
Result<std::string> read_input(const std::string& file);
// All pages of a list, given one item after the other.
net::Task<Result<>> each_item(Client& client, std::string path,
                              std::function<void(json::object)> on_item);

}  // namespace firebreak::cli
