#include "commands.h"

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"

namespace firebreak::cli {

Error refused_key(const std::string& url) {
  return fail(Code::unauthenticated,
              "the server at " + url + " does not know this key, or it was revoked",
              Repair{"set FIREBREAK_API_KEY, or run 'firebreak login " + url + "'"})
      .error();
}

int with_client(const Common& common, const ClientBody& body) {
  auto connection = find_server(common.server);
  if (!connection) {
    print_error(connection.error().message);
    return 1;
  }
  const std::string url = connection->url;
  Client client(*std::move(connection));
  int status = 0;
  const Result<> outcome = client.run(body(client, status));
  if (outcome) return status;
  print_error(outcome.error().code == Code::unauthenticated ? refused_key(url).message
                                                            : outcome.error().message);
  return status == 0 ? 1 : status;
}

void run_with_client(Command& command, const Common& common, ClientBody body) {
  command.run([&common, body = std::move(body)] { return with_client(common, body); });
}

void add_json_flag(Command& command, Common& common) {
  command.flag("--json", common.json, "Print JSON");
}

Option& add_microvm_word(Command& command, std::string& id) {
  return command.word("ID", id, "Id, name, or first letters of the id of a microVM")
      .kind(ValueKind::microvm)
      .required("'firebreak ps' lists them");
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

json::object object_of_pairs(const std::vector<std::string>& pairs) {
  json::object object;
  for (const std::string& pair : pairs) {
    // The parser has checked them.
    if (const auto parts = split_pair(pair)) object[parts->name] = parts->value;
  }
  return object;
}

Result<std::string> read_input(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream opened(file, std::ios::binary);
  if (!opened) return fail(Code::invalid, "cannot read " + file);
  return std::string(std::istreambuf_iterator<char>(opened), {});
}

net::Task<Result<>> each_item(Client& client, std::string path,
                              std::function<void(json::object)> on_item) {
  std::string token;
  do {
    const std::string more = token.empty() ? "" : "&pageToken=" + percent_encode(token, "");
    FB_CO_TRY_ASSIGN(json::object page, co_await client.call("GET", path + more));
    for (json::value& item : page.at("items").as_array()) on_item(std::move(item.as_object()));
    token = text_of(page, "nextPageToken");
  } while (!token.empty());
  co_return Result<>();
}

}  // namespace firebreak::cli
