#include "commands.h"

#include <chrono>
#include <iostream>

#include <fmt/format.h>

#include "base/text.h"

namespace firebreak::cli {

int with_client(const Common& common,
                const std::function<net::Task<Result<>>(Client&, int& status)>& body) {
  auto connection = find_server(common.data_dir);
  Result<> outcome;
  int status = 0;
  if (!connection) {
    outcome = std::unexpected(connection.error());
  } else {
    Client client(*std::move(connection));
    outcome = client.run(body(client, status));
  }
  if (outcome) return status;
  std::cerr << "firebreak: " << outcome.error().message << "\n";
  return 1;
}

void print_json(const json::value& value) {
  std::cout << json::serialize(value) << "\n";
}

void TextTable::print() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << "\n";
  }
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string()) return std::string(value->as_string());
  if (value->is_double()) return fmt::format("{:.2f}", value->as_double());
  return json::serialize(*value);
}

std::string age_of(const json::object& object, std::string_view name) {
  const auto at = parse_u64(text_of(object, name));
  if (!at) return "";
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  const auto seconds = std::max<std::int64_t>(0, (now - static_cast<std::int64_t>(*at)) / 1000);
  if (seconds < 120) return std::to_string(seconds) + " s ago";
  if (seconds < 7200) return std::to_string(seconds / 60) + " m ago";
  if (seconds < 172800) return std::to_string(seconds / 3600) + " h ago";
  return std::to_string(seconds / 86400) + " d ago";
}

std::string microvm_path(const std::string& id, const std::string& rest) {
  return "/v1/microvms/" + percent_encode(id, "") + rest;
}

}  // namespace firebreak::cli
