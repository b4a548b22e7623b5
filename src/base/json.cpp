#include "base/json.h"

namespace firebreak {

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = 32;
  json::stream_parser parser({}, options);
  json::error_code ec;
  const std::size_t used = parser.write(json::string_view(text.data(), text.size()), ec);
  if (!ec) parser.finish(ec);
  if (ec) {
    return fail(Code::invalid,
                "not valid JSON at byte " + std::to_string(used) + ": " + ec.message());
  }
  return parser.release();
}

Result<json::object> parse_json_object(std::string_view text) {
  FB_TRY_ASSIGN(json::value value, parse_json(text));
  if (!value.is_object()) return fail(Code::invalid, "expected a JSON object");
  return std::move(value.as_object());
}

bool JsonReader::has(std::string_view name) const {
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value != nullptr && !value->is_null();
}

void JsonReader::reject(std::string_view name, std::string_view why, Repair repair) {
  if (error_) return;
  const std::string member = path_ + std::string(name);
  error_ = fail(Code::invalid, Reason{"member_invalid"},
                "member '" + member + "' " + std::string(why), std::move(repair))
               .error();
  error_->data = {{"member", member}};
}

void JsonReader::reject(std::string_view name, const Error& error) {
  if (error_) return;
  reject(name, error.message);
  error_->repair = error.repair;
}

Result<> JsonReader::result() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

// null counts as absent.
const json::value* JsonReader::find(std::string_view name, bool required) {
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  if (value != nullptr && !value->is_null()) return value;
  if (required) reject(name, "is missing");
  return nullptr;
}

std::string JsonReader::string(std::string_view name) {
  const json::value* value = find(name, true);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    reject(name, "must be a string");
    return {};
  }
  return std::string(value->as_string());
}

std::string JsonReader::string_or(std::string_view name, std::string fallback) {
  return has(name) ? string(name) : std::move(fallback);
}

std::uint64_t JsonReader::u64(std::string_view name) {
  const json::value* value = find(name, true);
  if (value == nullptr) return 0;
  if (value->is_uint64()) return value->as_uint64();
  if (value->is_int64() && value->as_int64() >= 0)
    return static_cast<std::uint64_t>(value->as_int64());
  reject(name, "must be a non-negative integer");
  return 0;
}

std::uint64_t JsonReader::u64_or(std::string_view name, std::uint64_t fallback) {
  return has(name) ? u64(name) : fallback;
}

std::int64_t JsonReader::i64(std::string_view name) {
  const json::value* value = find(name, true);
  if (value == nullptr) return 0;
  if (value->is_int64()) return value->as_int64();
  reject(name, "must be an integer");
  return 0;
}

bool JsonReader::boolean_or(std::string_view name, bool fallback) {
  const json::value* value = find(name, false);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) {
    reject(name, "must be true or false");
    return fallback;
  }
  return value->as_bool();
}

std::vector<std::string> JsonReader::strings_or_empty(std::string_view name) {
  const json::array* items = array(name, false);
  std::vector<std::string> out;
  if (items == nullptr) return out;
  for (const json::value& item : *items) {
    if (!item.is_string()) {
      reject(name, "must be a list of strings");
      return {};
    }
    out.emplace_back(item.as_string());
  }
  return out;
}

std::map<std::string, std::string> JsonReader::string_map_or_empty(std::string_view name) {
  const json::object* members = object(name, false);
  std::map<std::string, std::string> out;
  if (members == nullptr) return out;
  for (const auto& [key, value] : *members) {
    if (!value.is_string()) {
      reject(name, "must map strings to strings");
      return {};
    }
    out.emplace(std::string(key), std::string(value.as_string()));
  }
  return out;
}

const json::object* JsonReader::object(std::string_view name, bool required) {
  const json::value* value = find(name, required);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    reject(name, "must be an object");
    return nullptr;
  }
  return &value->as_object();
}

const json::array* JsonReader::array(std::string_view name, bool required) {
  const json::value* value = find(name, required);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    reject(name, "must be a list");
    return nullptr;
  }
  return &value->as_array();
}

}  // namespace firebreak
