// Values that are kept as JSON text or as the name of an enum. What does not read back is damage:
// Code::corrupt. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/isolation.h"

namespace firebreak::store {

using StringMap = std::map<std::string, std::string>;

// Code::invalid when a text is not UTF-8: it could never be read back.
Result<std::string> encode_map(const StringMap& map);
Result<StringMap> decode_map(const std::string& text);

// A result of reading stored JSON, its error turned into damage.
template <class T>
Result<T> stored(Result<T> value, std::string_view what) {
  if (value) return value;
  return fail(Code::corrupt, "the store holds a damaged " + std::string(what),
              value.error().message);
}

template <class Enum>
Result<Enum> decode(std::optional<Enum> (*parse)(std::string_view), const std::string& text) {
  if (auto value = parse(text)) return *value;
  return fail(Code::corrupt, "the store holds an unknown state", text.substr(0, 64));
}

// A row of a server that did not record the class promises the least, until record_isolation().
Result<core::Isolation> decode_isolation(const std::string& text);

}  // namespace firebreak::store
