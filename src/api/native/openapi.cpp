#include "api/native/openapi.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace firebreak::api {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "POST /v1/microvms/{id}/exec" -> "postMicrovmsIdExec"
std::string operation_id(const Route& route) {
  std::string id = lower(route.method);
  for (std::string_view part : split(std::string_view(route.pattern).substr(4), '/')) {
    if (part.starts_with('{')) part = part.substr(1, part.size() - 2);
    if (part.empty()) continue;
    id += static_cast<char>(std::toupper(static_cast<unsigned char>(part[0])));
    id += part.substr(1);
  }
  return id;
}

json::array parameters(const Route& route) {
  json::array list;
  for (std::string_view part : split(route.pattern, '/')) {
    if (!part.starts_with('{')) continue;
    list.push_back(json::object{{"name", part.substr(1, part.size() - 2)},
                                {"in", "path"},
                                {"required", true},
                                {"schema", {{"type", "string"}}}});
  }
  // Query values are named in the summary as ?name.
  const std::string& text = route.summary;
  std::vector<std::string> seen;
  for (std::size_t at = text.find('?'); at != std::string::npos; at = text.find('?', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0)) ++end;
    const std::string name = text.substr(at + 1, end - at - 1);
    if (name.empty() || std::ranges::find(seen, name) != seen.end()) continue;
    seen.push_back(name);
    list.push_back(json::object{
        {"name", name}, {"in", "query"}, {"required", false}, {"schema", {{"type", "string"}}}});
  }
  return list;
}

json::object error_response(const char* description) {
  return {
      {"description", description},
      {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
}

json::object operation(const Route& route) {
  json::object responses{{"2XX", {{"description", "done"}}},
                         {"4XX", error_response("the request cannot be served as it is")},
                         {"5XX", error_response("the server or the guest failed")}};
  json::object out{{"operationId", operation_id(route)},
                   {"summary", route.summary},
                   {"parameters", parameters(route)},
                   {"responses", std::move(responses)}};
  if (route.method == "POST" || route.method == "PATCH" || route.method == "PUT") {
    const bool raw = route.pattern.ends_with("/files") || route.pattern.ends_with("/tar") ||
                     route.pattern.ends_with("/stdin");
    json::object schema{{"type", "object"}};
    if (raw) schema = {{"type", "string"}, {"format", "binary"}};
    out["requestBody"] = {{"content",
                           {{raw ? "application/octet-stream" : "application/json",
                             {{"schema", std::move(schema)}}}}}};
  }
  if (route.admin) out["description"] = "Needs an administrator's key.";
  return out;
}

}  // namespace

json::object openapi_document(const std::vector<Route>& routes) {
  json::object paths;
  for (const Route& route : routes) {
    json::value& path = paths[route.pattern];
    if (!path.is_object()) path = json::object{};
    path.as_object()[lower(route.method)] = operation(route);
  }
  const json::object error{
      {"type", "object"},
      {"required", json::array{"code", "message"}},
      {"properties",
       {{"code",
         {{"type", "string"}, {"description", "stable: invalid, not_found, conflict, ..."}}},
        {"message", {{"type", "string"}}},
        {"repair", {{"type", "string"}}},
        {"resetsAt", {{"type", "integer"}, {"description", "Unix milliseconds"}}}}}};
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Firebreak"},
            {"version", "1"},
            {"description",
             "MicroVMs from snapshots: run, exec, files, terminals, contexts, suspend, resume, "
             "fork."}}},
          {"security", json::array{json::object{{"bearer", json::array{}}}}},
          {"components",
           {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
            {"schemas", {{"Error", error}}}}},
          {"paths", std::move(paths)}};
}

}  // namespace firebreak::api
