#include "store/sqlite/codec.h"

#include "base/json.h"

namespace firebreak::store {

Result<std::string> encode_map(const StringMap& map) {
  json::object object;
  for (const auto& [key, value] : map) object[key] = value;
  std::string text = json::serialize(object);
  if (!parse_json_object(text)) return fail(Code::invalid, "tags and variables must be UTF-8");
  return text;
}

Result<StringMap> decode_map(const std::string& text) {
  FB_TRY_ASSIGN(json::object object, stored(parse_json_object(text), "map"));
  StringMap map;
  for (const auto& [key, value] : object) {
    const json::string* string = value.if_string();
    if (string == nullptr) return fail(Code::corrupt, "the store holds a damaged map");
    map.emplace(std::string(key), std::string(*string));
  }
  return map;
}

Result<core::Isolation> decode_isolation(const std::string& text) {
  if (text.empty()) return core::Isolation::emulated;
  return decode(core::parse_isolation, text);
}

}  // namespace firebreak::store
