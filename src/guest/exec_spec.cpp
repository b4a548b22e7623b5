#include <algorithm>

#include "guest/exec.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kMaxRing = 8 << 20;

bool has_nul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

bool valid_id(std::string_view id) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return id.size() <= 64 && std::ranges::all_of(id, plain);
}

std::optional<TerminalSize> read_terminal(const json::object& object, JsonReader& outer) {
  JsonReader reader(object, "pty.");
  const std::uint64_t cols = reader.u64_or("cols", 80);
  const std::uint64_t rows = reader.u64_or("rows", 24);
  if (!reader.result() || cols > 0xffff || rows > 0xffff) outer.reject("pty", "has a wrong size");
  return TerminalSize{static_cast<std::uint16_t>(cols), static_cast<std::uint16_t>(rows)};
}

}  // namespace

Result<ExecSpec> parse_exec_spec(const json::object& body) {
  JsonReader reader(body);
  ExecSpec spec;
  spec.id = reader.string_or("id", "");
  spec.argv = reader.strings_or_empty("argv");
  if (reader.has("shell")) {
    if (!spec.argv.empty()) reader.reject("shell", "cannot be given together with argv");
    spec.argv = {"/bin/sh", "-c", reader.string("shell")};
  }
  spec.env = reader.string_map_or_empty("env");
  spec.cwd = reader.string_or("cwd", "");
  spec.user = reader.string_or("user", "");
  spec.with_stdin = reader.boolean_or("stdin", false);
  if (const json::object* pty = reader.object("pty", false))
    spec.terminal = read_terminal(*pty, reader);
  if (reader.has("timeout_ms"))
    spec.timeout =
        std::chrono::milliseconds(std::min(reader.u64("timeout_ms"), std::uint64_t{1} << 40));
  const std::string overflow = reader.string_or("overflow", "block");
  if (overflow != "block" && overflow != "drop") reader.reject("overflow", "must be block or drop");
  spec.overflow = overflow == "drop" ? Overflow::drop : Overflow::block;
  spec.ring_bytes = std::min(reader.u64_or("ring_bytes", 1 << 20), std::uint64_t{kMaxRing});

  if (spec.argv.empty() || spec.argv.front().empty()) reader.reject("argv", "is missing");
  if (!valid_id(spec.id)) reader.reject("id", "must be up to 64 letters, digits, '-', '_', '.'");
  if (std::ranges::any_of(spec.argv, has_nul)) reader.reject("argv", "contains a NUL byte");
  if (has_nul(spec.cwd)) reader.reject("cwd", "contains a NUL byte");
  for (const auto& [name, value] : spec.env) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value))
      reader.reject("env", "has a name or value that cannot be in an environment");
  }
  FB_TRY(reader.result());
  return spec;
}

json::object to_json(const ExecExit& exit) {
  json::object object;
  if (exit.exit_code) object["exit_code"] = *exit.exit_code;
  if (exit.signal) object["signal"] = *exit.signal;
  object["timed_out"] = exit.timed_out;
  object["oom"] = exit.oom;
  return object;
}

std::vector<std::string> build_environment(const std::map<std::string, std::string>& tenant,
                                           const ExecSpec& spec, const std::string& home) {
  std::map<std::string, std::string> all = spec.env;
  all.insert(tenant.begin(), tenant.end());
  all.emplace("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  all.emplace("HOME", home);
  if (spec.terminal) all.emplace("TERM", "xterm-256color");
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) lines.emplace_back(name).append("=").append(value);
  return lines;
}

}  // namespace firebreak::guest
