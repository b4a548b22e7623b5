// A request of the agent protocol, taken apart: method, path segments, query. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/h2_session.h"

namespace firebreak::guest {

struct Request {
  std::string method;
  std::string path;                   // without the query, as sent
  std::vector<std::string> segments;  // of the path, percent-decoded
  std::vector<std::pair<std::string, std::string>> query;

  bool has(std::string_view name) const;
  // "" when absent.
  std::string_view param(std::string_view name) const;
  Result<std::uint64_t> number(std::string_view name, std::uint64_t fallback) const;
  bool flag(std::string_view name) const { return param(name) == "1"; }
  // Method and exact path.
  bool is(std::string_view want_method, std::string_view want_path) const {
    return method == want_method && path == want_path;
  }
};

Result<Request> parse_request(const wire::Headers& headers);

// The HTTP status of an error.
int status_of(Code code);

}  // namespace firebreak::guest
