// Strict reading of untrusted JSON: bounded size and depth, and a reader that names the path of
// what is wrong. Values; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "base/result.h"

namespace firebreak {

namespace json = boost::json;

// Depth at most 32; the caller has bounded the size. The error names the byte where it failed.
Result<json::value> parse_json(std::string_view text);
// As above, and the top must be an object.
Result<json::object> parse_json_object(std::string_view text);

// Reads members of one object. The first failure is kept; later reads return defaults, so that a
// list of reads is followed by one check of `result()`.
class JsonReader {
 public:
  explicit JsonReader(const json::object& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  bool has(std::string_view name) const;
  std::string string(std::string_view name);  // required
  std::string string_or(std::string_view name, std::string fallback);
  std::uint64_t u64(std::string_view name);
  std::uint64_t u64_or(std::string_view name, std::uint64_t fallback);
  std::int64_t i64(std::string_view name);
  bool boolean_or(std::string_view name, bool fallback);
  std::vector<std::string> strings_or_empty(std::string_view name);
  std::map<std::string, std::string> string_map_or_empty(std::string_view name);
  // nullptr when absent (required: also an error).
  const json::object* object(std::string_view name, bool required);
  const json::array* array(std::string_view name, bool required);

  void reject(std::string_view name, std::string_view why, Repair repair = {});
  // What is wrong with its value, with its own repair.
  void reject(std::string_view name, const Error& error);
  Result<> result() const;

 private:
  const json::value* find(std::string_view name, bool required);

  const json::object& object_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace firebreak
