#include "contexts.h"

#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "base/sys.h"

namespace firebreak::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<Contexts> parse(const std::string& text) {
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader reader(object);
  Contexts contexts;
  contexts.current = reader.string_or("current", "");
  const json::object* servers = reader.object("contexts", false);
  FB_TRY(reader.result());
  if (servers == nullptr) return contexts;
  for (const auto& [key, value] : *servers) {
    const std::string name(key);
    if (!value.is_object()) return fail(Code::invalid, "contexts." + name + " is not an object");
    JsonReader entry(value.as_object(), "contexts." + name + ".");
    contexts.servers[name] = {.url = entry.string("url"),
                              .api_key = entry.string("apiKey"),
                              .ca_file = entry.string_or("caFile", "")};
    FB_TRY(entry.result());
  }
  return contexts;
}

}  // namespace

std::string contexts_file() {
  std::string directory = variable("XDG_CONFIG_HOME");
  if (directory.empty()) {
    const std::string home = variable("HOME");
    if (home.empty()) return "";
    directory = home + "/.config";
  }
  return directory + "/firebreak/config.json";
}

Result<Contexts> read_contexts() {
  const std::string file = contexts_file();
  if (file.empty()) return Contexts{};
  auto text = sys::read_file(file);
  if (!text) {
    // A home that is not ours (as under sudo) holds no contexts of ours.
    const bool none = text.error().code == Code::not_found || text.error().code == Code::denied ||
                      text.error().code == Code::conflict;
    if (none) return Contexts{};
    return fail(text.error(), file);
  }
  auto contexts = parse(*text);
  if (!contexts)
    return fail(Code::invalid, file + ": " + contexts.error().message,
                Repair{"mend or remove the file, then run 'firebreak login URL'"});
  return contexts;
}

Result<> write_contexts(const Contexts& contexts) {
  const std::string file = contexts_file();
  if (file.empty())
    return fail(Code::invalid, "no place to keep contexts", Repair{"set HOME or XDG_CONFIG_HOME"});
  json::object servers;
  for (const auto& [name, server] : contexts.servers) {
    json::object entry{{"url", server.url}, {"apiKey", server.api_key}};
    if (!server.ca_file.empty()) entry["caFile"] = server.ca_file;
    servers[name] = std::move(entry);
  }
  const json::object object{{"current", contexts.current}, {"contexts", std::move(servers)}};
  FB_TRY(sys::mkdirs(std::filesystem::path(file).parent_path().string(), 0700));
  return sys::replace_file(file, json::serialize(object) + "\n", 0600);
}

Result<ServerContext> find_context(const Contexts& contexts, const std::string& name) {
  if (const auto found = contexts.servers.find(name); found != contexts.servers.end())
    return found->second;
  std::string known;
  for (const auto& [other, server] : contexts.servers) known += (known.empty() ? "" : ", ") + other;
  return fail(Code::not_found, "there is no context '" + name + "'",
              Repair{(known.empty() ? "make one with 'firebreak login URL --context " + name + "'"
                                    : "known are: " + known)});
}

}  // namespace firebreak::cli
