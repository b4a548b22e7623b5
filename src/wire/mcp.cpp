#include "wire/mcp.h"

#include <algorithm>

namespace firebreak::wire::mcp {
namespace {

std::unexpected<Refusal> refuse(ErrorCode code, std::string message, json::value id = nullptr) {
  return std::unexpected(Refusal{{code, std::move(message), {}}, std::move(id)});
}

// Values outnumber separators and opening brackets by one at most. Texts are skipped, whatever is
// in them.
bool has_too_many_values(std::string_view text) {
  std::size_t count = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == ',' || c == ':' || c == '[' || c == '{') ++count;
    if (count > kMaxValues) return true;
  }
  return false;
}

bool is_id(const json::value& value) {
  return value.is_string() || value.is_int64();
}

std::expected<Message, Refusal> parse_one(json::value value) {
  if (!value.is_object()) return refuse(ErrorCode::invalid_request, "a message must be an object");
  json::object& object = value.get_object();
  const json::value* id = object.if_contains("id");
  const json::value known = id != nullptr && is_id(*id) ? *id : json::value(nullptr);
  const json::value* version = object.if_contains("jsonrpc");
  if (version == nullptr || !version->is_string() || version->get_string() != "2.0")
    return refuse(ErrorCode::invalid_request, "jsonrpc must be \"2.0\"", known);
  if (id != nullptr && known.is_null())
    return refuse(ErrorCode::invalid_request, "id must be a string or an integer");

  Message message;
  message.id = known;
  json::value* method = object.if_contains("method");
  if (method == nullptr) {
    if (id == nullptr || object.contains("result") == object.contains("error"))
      return refuse(ErrorCode::invalid_request,
                    "a message has a method, or an id and either a result or an error", known);
    message.kind = Message::Kind::response;
    return message;
  }
  if (!method->is_string()) return refuse(ErrorCode::invalid_request, "method must be text", known);
  message.method = std::string(method->get_string());
  message.kind = id == nullptr ? Message::Kind::notification : Message::Kind::request;
  if (json::value* params = object.if_contains("params")) {
    if (!params->is_object())
      return refuse(ErrorCode::invalid_params, "params must be an object", known);
    message.params = std::move(params->get_object());
    const json::value* meta = message.params.if_contains("_meta");
    if (meta != nullptr && !meta->is_object())
      return refuse(ErrorCode::invalid_params, "_meta must be an object", known);
  }
  return message;
}

json::object envelope(const json::value& id) {
  return {{"jsonrpc", "2.0"}, {"id", id}};
}

}  // namespace

bool is_legacy_version(std::string_view version) {
  return std::ranges::find(kLegacyVersions, version) != kLegacyVersions.end();
}

const json::object* Message::meta() const {
  const json::value* meta = params.if_contains("_meta");
  return meta == nullptr ? nullptr : meta->if_object();
}

std::expected<Incoming, Refusal> parse(std::string_view text) {
  if (text.size() > kMaxMessage)
    return refuse(ErrorCode::invalid_request,
                  "the message is larger than " + std::to_string(kMaxMessage >> 20) + " MiB");
  if (has_too_many_values(text))
    return refuse(ErrorCode::invalid_request,
                  "the message has more than " + std::to_string(kMaxValues) + " values");
  auto value = parse_json(text);
  if (!value)
    return refuse(ErrorCode::parse_error, "the message is no JSON: " + value.error().message);
  Incoming incoming;
  json::array* batch = value->if_array();
  if (batch == nullptr) {
    auto message = parse_one(*std::move(value));
    if (!message) return std::unexpected(std::move(message).error());
    incoming.messages.push_back(*std::move(message));
    return incoming;
  }
  if (batch->empty() || batch->size() > kMaxBatch)
    return refuse(ErrorCode::invalid_request,
                  "a batch has 1 to " + std::to_string(kMaxBatch) + " messages");
  incoming.batch = true;
  for (json::value& entry : *batch) {
    auto message = parse_one(std::move(entry));
    if (!message) return std::unexpected(std::move(message).error());
    incoming.messages.push_back(*std::move(message));
  }
  return incoming;
}

std::string result_text(const json::value& id, json::object result) {
  json::object message = envelope(id);
  message["result"] = std::move(result);
  return json::serialize(message);
}

std::string error_text(const json::value& id, const RpcError& error) {
  json::object object{{"code", static_cast<int>(error.code)}, {"message", error.message}};
  if (!error.data.empty()) object["data"] = error.data;
  json::object message = envelope(id);
  message["error"] = std::move(object);
  return json::serialize(message);
}

std::string notification_text(std::string_view method, json::object params) {
  json::object message{{"jsonrpc", "2.0"}, {"method", method}};
  message["params"] = std::move(params);
  return json::serialize(message);
}

}  // namespace firebreak::wire::mcp
