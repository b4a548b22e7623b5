#include "api/native/openapi.h"

#include <algorithm>
#include <cctype>

#include "api/native/answers.h"
#include "api/native/fields.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "POST /v1/microvms/{id}/exec" -> "postMicrovmsIdExec": a name in any programming language.
std::string operation_id(const Route& route) {
  std::string id = lower(route.method);
  bool begins = true;
  for (const char c : std::string_view(route.pattern).substr(4)) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      begins = true;
      continue;
    }
    id += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = false;
  }
  return id;
}

// A word that begins with a capital letter names a schema.
json::object typed(std::string_view names) {
  json::array types;
  json::array choices;
  bool named = false;
  for (const std::string_view type : split(names, '|')) {
    const bool schema = std::isupper(static_cast<unsigned char>(type.front())) != 0;
    named = named || schema;
    types.emplace_back(type);
    if (schema) {
      choices.push_back(json::object{{"$ref", "#/components/schemas/" + std::string(type)}});
    } else {
      choices.push_back(json::object{{"type", type}});
    }
  }
  if (named && choices.size() > 1) return {{"anyOf", std::move(choices)}};
  if (named) return choices[0].as_object();
  return {{"type", types.size() == 1 ? types[0] : json::value(types)}};
}

// Requests are closed: the server refuses members that it does not know. Answers are open.
enum class Members { closed, open };
json::object object_schema(const Fields& fields, Members members = Members::closed);

// What is in an array or an object, as far as it is known.
void add_content(const Field& field, json::object& schema) {
  const bool array = field.type.find("array") != std::string_view::npos;
  if (!field.of.empty()) schema[array ? "items" : "additionalProperties"] = typed(field.of);
  if (field.members.empty()) return;
  json::object inner = object_schema(field.members);
  if (array) schema["items"] = inner;
  if (field.type.find("object") == std::string_view::npos) return;
  inner.erase("type");
  for (auto& member : inner) schema[member.key()] = std::move(member.value());
}

json::object schema_of(const Field& field) {
  json::object schema = typed(field.type);
  if (field.least != 0) schema["minimum"] = field.least;
  if (field.most != Field().most) schema["maximum"] = field.most;
  if (!field.choices.empty())
    schema["enum"] = json::array(field.choices.begin(), field.choices.end());
  add_content(field, schema);
  if (field.many) schema = {{"type", "array"}, {"items", std::move(schema)}};
  return schema;
}

json::object object_schema(const Fields& fields, Members members) {
  json::object properties;
  json::array required;
  for (const Field& field : fields) {
    json::object schema = schema_of(field);
    schema["description"] = field.about;
    properties[field.name] = std::move(schema);
    if (field.required) required.emplace_back(field.name);
  }
  json::object schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (members == Members::closed) schema["additionalProperties"] = false;
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

json::array parameters(const Route& route) {
  json::array list;
  for (std::string_view part : split(route.pattern, '/')) {
    if (!part.starts_with('{')) continue;
    json::object parameter{{"name", part.substr(1, part.size() - 2)},
                           {"in", "path"},
                           {"required", true},
                           {"schema", {{"type", "string"}}}};
    if (part == "{id}")
      parameter["description"] =
          "id, name, or the beginning of an id: at least 4 characters of its UUID";
    list.push_back(std::move(parameter));
  }
  for (const Field& field : fields_of(route.method, route.pattern).query) {
    list.push_back(json::object{{"name", field.name},
                                {"in", "query"},
                                {"required", field.required},
                                {"description", field.about},
                                {"schema", schema_of(field)}});
  }
  return list;
}

json::object error_response(const char* description) {
  return {
      {"description", description},
      {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
}

const char* media_type(Form form) {
  switch (form) {
    case Form::json:
      return "application/json";
    case Form::lines:
      return "application/x-ndjson";
    case Form::events:
      return "text/event-stream";
    case Form::bytes:
      return "application/octet-stream";
    case Form::text:
    case Form::websocket:
      break;
  }
  return "text/plain";
}

json::object success_response(const Answer& answer) {
  if (answer.form == Form::websocket) return {{"description", "101: a WebSocket"}};
  json::object schema{{"type", "object"}};
  if (!answer.schema.empty()) schema = typed(answer.schema);
  if (answer.form == Form::bytes) schema = {{"type", "string"}, {"format", "binary"}};
  if (answer.form == Form::text) schema = {{"type", "string"}};
  json::object content{{media_type(answer.form), {{"schema", std::move(schema)}}}};
  if (!answer.lines.empty())
    content[media_type(Form::lines)] = json::object{{"schema", typed(answer.lines)}};
  return {{"description", "done"}, {"content", std::move(content)}};
}

json::object operation(const Route& route) {
  json::object responses{{"2XX", success_response(answer_of(route.method, route.pattern))},
                         {"4XX", error_response("the request cannot be served as it is")},
                         {"5XX", error_response("the server or the guest failed")}};
  json::object out{{"operationId", operation_id(route)},
                   {"summary", route.summary},
                   {"parameters", parameters(route)},
                   {"responses", std::move(responses)}};
  const CallFields& fields = fields_of(route.method, route.pattern);
  if (fields.bytes) {
    const json::object schema{{"type", "string"}, {"format", "binary"}};
    out["requestBody"] = {{"content", {{"application/octet-stream", {{"schema", schema}}}}}};
  } else if (!fields.body.empty()) {
    out["requestBody"] = {
        {"content", {{"application/json", {{"schema", object_schema(fields.body)}}}}}};
  }
  if (route.admin) out["description"] = "Needs an administrator's key.";
  return out;
}

json::object schemas() {
  json::object all{
      {"Error",
       {{"type", "object"},
        {"required", json::array{"code", "message"}},
        {"properties",
         {{"code",
           {{"type", "string"}, {"description", "stable: invalid, not_found, conflict, ..."}}},
          {"message", {{"type", "string"}}},
          {"reason",
           {{"type", "string"}, {"description", "a stable word, when the code says too little"}}},
          {"repair", {{"type", "string"}}},
          {"resetsAt", {{"type", "integer"}, {"description", "Unix milliseconds"}}}}}}}};
  for (const Schema& schema : answer_schemas())
    all[schema.name] = object_schema(schema.members, Members::open);
  return all;
}

}  // namespace

json::object openapi_document(const std::vector<Route>& routes) {
  json::object paths;
  for (const Route& route : routes) {
    json::value& path = paths[route.pattern];
    if (!path.is_object()) path = json::object{};
    path.as_object()[lower(route.method)] = operation(route);
  }
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
            {"schemas", schemas()}}},
          {"paths", std::move(paths)}};
}

}  // namespace firebreak::api
