#include "commands.h"

#include <chrono>

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
  print_error(outcome.error().message);
  return 1;
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
