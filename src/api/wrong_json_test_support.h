// Bodies in which one value has another type than it should have. Test code only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace firebreak::api {

inline std::vector<std::string> wrong_values() {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  std::string objects = "1";
  for (int i = 0; i < 20; ++i) objects = "{\"a\":" + objects + "}";
  return {
      "-1",          "0",        "1",          "1.5",          "1e400",      "18446744073709551615",
      "true",        "null",     "\"\"",       "\"x\"",        "[]",         "[null]",
      "[-1]",        "[{}]",     "{}",         "{\"a\":null}", "{\"a\":-1}", "{\"\":\"\"}",
      "\"\\u0000\"", nested(20), nested(2000), objects};
}

// Each value anywhere in `body`, replaced in turn by `wrong`, which is JSON. The body itself, too.
inline std::vector<std::string> with_each_replaced(const json::value& body,
                                                   const std::string& wrong) {
  constexpr std::string_view kMark = "@mark@";
  std::vector<std::string> out;
  json::value copy = body;
  const auto take = [&](json::value& at) {
    json::value kept = at;
    at = kMark;
    std::string text = json::serialize(copy);
    text.replace(text.find('"' + std::string(kMark) + '"'), kMark.size() + 2, wrong);
    out.push_back(std::move(text));
    at = std::move(kept);
  };
  const auto walk = [&](auto& self, json::value& at) -> void {
    take(at);
    if (json::object* object = at.if_object())
      for (auto& member : *object) self(self, member.value());
    if (json::array* array = at.if_array())
      for (json::value& element : *array) self(self, element);
  };
  walk(walk, copy);
  return out;
}

}  // namespace firebreak::api
